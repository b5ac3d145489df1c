package certs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/logged"
)

// shortly is longer than the polling of the certificate watcher, for machines where notifications come late.
const shortly = 3 * time.Minute

func TestDirFollowsTheFilesOfAMountedSecret(t *testing.T) {
	dir := t.TempDir()
	log := &logged.Buffer{}
	d := NewDir(dir, slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	address := serve(t, d.GetCertificate)

	// Nothing is there yet: not ready, and still trying.
	require.Never(t, func() bool { return d.Loaded() == nil }, 2500*time.Millisecond, 100*time.Millisecond)
	require.ErrorContains(t, d.Loaded(), "put tls.crt and tls.key into")
	require.ErrorContains(t, d.Loaded(), "no such file")
	assert.True(t, d.NotAfter().IsZero())
	assert.True(t, d.NotBefore().IsZero())
	_, err := d.GetCertificate(nil)
	require.Error(t, err)
	assert.Equal(t, 1, strings.Count(log.String(), "certificate cannot be loaded"), "said once")

	// The issuer is done.
	ca := authority(t, day, time.Now())
	mount(t, dir, "1", encoded(t, ca, time.Hour))
	require.Eventually(t, func() bool { return d.Loaded() == nil }, shortly, 50*time.Millisecond)
	first := d.NotAfter()
	met, err := dial(t, address, "localhost", bundleOf(t, ca))
	require.NoError(t, err)
	assert.Equal(t, first, met)

	// The Secret is renewed, twice.
	for i, life := range []time.Duration{2 * time.Hour, 3 * time.Hour} {
		prev := d.NotAfter()
		mount(t, dir, fmt.Sprint(i+2), encoded(t, ca, life))
		require.Eventually(t, func() bool { return d.NotAfter().After(prev) }, shortly, 50*time.Millisecond)
		met, err = dial(t, address, "localhost", bundleOf(t, ca))
		require.NoError(t, err)
		assert.Equal(t, d.NotAfter(), met, "served without a restart")
	}

	// What is broken or gone later does not end serving.
	last := d.NotAfter()
	assert.True(t, d.NotBefore().Before(last))
	mount(t, dir, "4", map[string][]byte{"tls.crt": []byte("garbage"), "tls.key": []byte("garbage")})
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "..data")))
	require.Never(t, func() bool { return d.NotAfter() != last || d.Loaded() != nil }, time.Second, 100*time.Millisecond)
	cancel()
	<-ended
	assert.NotContains(t, log.String(), "PRIVATE KEY")
}

func TestDirWithAnExpiredCertificateIsNotReady(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "1", encoded(t, authority(t, day, birth), -time.Minute))
	d := NewDir(dir, slog.New(slog.DiscardHandler))
	d.files.Read()
	require.ErrorContains(t, d.Loaded(), "renew it")
	_, err := d.GetCertificate(nil)
	require.NoError(t, err, "it is still the best there is")
}

// mount puts files there as kubelet does: in a directory of their own behind the link ..data, which is swapped in one step, the
// files being links through it. The directory before is removed.
func mount(t *testing.T, dir, generation string, files map[string][]byte) {
	t.Helper()
	target := "..2026_" + generation
	require.NoError(t, os.Mkdir(filepath.Join(dir, target), 0o755))
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, target, name), content, 0o600))
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	require.NoError(t, os.Symlink(target, filepath.Join(dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); !os.IsExist(err) {
			require.NoError(t, err)
		}
	}
	if old != "" {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, old)))
	}
}

// encoded returns the files of a leaf of ca for localhost that expires life from now, which may be in the past.
func encoded(t *testing.T, ca pair, life time.Duration) map[string][]byte {
	t.Helper()
	leaf, err := newLeaf(ca, []string{"localhost"}, life, time.Now())
	require.NoError(t, err)
	files := map[string][]byte{}
	require.NoError(t, leaf.encode(files, "tls.crt", "tls.key"))
	return files
}

func bundleOf(t *testing.T, ca pair) []byte {
	t.Helper()
	data, err := encode(state{ca: ca})
	require.NoError(t, err)
	return data["ca.crt"]
}
