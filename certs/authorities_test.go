package certs

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheLastGoodFileOfAuthoritiesCounts(t *testing.T) {
	ca := authority(t, time.Hour, time.Now())
	item, two, leaf := bundleOf(t, ca), bundleOf(t, authority(t, time.Hour, time.Now())), encoded(t, ca, time.Hour)["tls.crt"]
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ca.crt")
		var log bytes.Buffer
		a := NewAuthorities(path, slog.New(slog.NewTextHandler(&log, nil)))
		polled := func() { a.file.Read(); a.file.Read() }

		assert.Nil(t, a.Pool(), "nobody is believed before there is a file")
		require.ErrorContains(t, a.Loaded(), path)

		require.NoError(t, os.WriteFile(path, item, 0o600))
		polled()
		require.NoError(t, a.Loaded())
		good := a.Pool()
		for name, bad := range map[string][]byte{
			"empty": {}, "no PEM": []byte("none"), "cut off": item[:len(item)-20], "with a tail": append(bytes.Clone(item), "tail"...),
			"no authority": leaf, "a good one and a leaf": append(bytes.Clone(item), leaf...),
			"a key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("secret")}),
		} {
			require.NoError(t, os.WriteFile(path, bad, 0o600))
			log.Reset()
			polled()
			assert.Same(t, good, a.Pool(), name)
			assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("level=ERROR")), "%s: logged once: %s", name, &log)
			require.NoError(t, os.WriteFile(path, item, 0o600))
			polled()
		}
		require.NoError(t, os.Remove(path))
		polled()
		assert.Same(t, good, a.Pool(), "the file is missing")
		require.NoError(t, a.Loaded())

		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.Run(ctx)
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(two), item...), 0o600))
		time.Sleep(3 * filePoll)
		synctest.Wait()
		assert.NotSame(t, good, a.Pool())
		assert.False(t, good.Equal(a.Pool()))
	})
}
