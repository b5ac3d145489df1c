package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tried returns options with a program for each platform.
func tried(t *testing.T, platforms ...string) options {
	t.Helper()
	o := options{
		binaries: t.TempDir(), platforms: platforms, out: t.TempDir(), repository: "example.com/nodekeep",
		version: "v1.2.3", commit: "0123abc", seconds: 1_700_000_000,
	}
	for _, platform := range platforms {
		folder := filepath.Join(o.binaries, filepath.FromSlash(platform))
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "nodekeep"), []byte("the program for "+platform), 0o755))
	}
	return o
}

func built(t *testing.T, o options) v1.ImageIndex {
	t.Helper()
	require.NoError(t, o.build(io.Discard))
	outer, err := layout.ImageIndexFromPath(filepath.Join(o.out, "oci"))
	require.NoError(t, err)
	require.NoError(t, validate.Index(outer))
	return outer
}

func TestTheIndexHasAnImageForEachPlatform(t *testing.T) {
	index := built(t, tried(t, "linux/amd64", "linux/arm64"))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	for i, arch := range []string{"amd64", "arm64"} {
		assert.Equal(t, &v1.Platform{OS: "linux", Architecture: arch}, manifest.Manifests[i].Platform)
		image, err := index.Image(manifest.Manifests[i].Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, arch, config.Architecture)
		assert.Equal(t, "65532:65532", config.Config.User)
		assert.Equal(t, []string{"/nodekeep"}, config.Config.Entrypoint)
		assert.Equal(t, "v1.2.3", config.Config.Labels["org.opencontainers.image.version"])
		assert.Equal(t, "0123abc", config.Config.Labels["org.opencontainers.image.revision"])
		assert.True(t, config.Created.Equal(time.Unix(1_700_000_000, 0)))
		assert.Equal(t, map[string]string{"nodekeep": "the program for linux/" + arch}, files(t, image))
	}
}

func TestTheArchiveIsWhatDockerLoadReads(t *testing.T) {
	o := tried(t, "linux/arm64")
	built(t, o)
	tag, err := name.NewTag("example.com/nodekeep:v1.2.3")
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(o.archive("linux/arm64"), &tag)
	require.NoError(t, err)
	require.NoError(t, validate.Image(image))
	assert.Equal(t, map[string]string{"nodekeep": "the program for linux/arm64"}, files(t, image))
}

func TestTheSameInputGivesTheSameDigestAndAnyOtherAnother(t *testing.T) {
	digest := func(change func(o *options), platforms ...string) string {
		o := tried(t, platforms...)
		change(&o)
		d, err := built(t, o).Digest()
		require.NoError(t, err)
		return d.String()
	}
	matches := func(*options) {}
	first := digest(matches, "linux/amd64", "linux/arm64")
	assert.Equal(t, first, digest(matches, "linux/amd64", "linux/arm64"))
	assert.NotEqual(t, first, digest(func(o *options) { o.seconds++ }, "linux/amd64", "linux/arm64"))
	assert.NotEqual(t, first, digest(func(o *options) { o.version = "v1.2.4" }, "linux/amd64", "linux/arm64"))
	assert.NotEqual(t, first, digest(matches, "linux/amd64"))
}

func TestAnEarlierBuildIsReplaced(t *testing.T) {
	o := tried(t, "linux/amd64", "linux/arm64")
	built(t, o)
	o.platforms = []string{"linux/arm64"}
	manifest, err := built(t, o).IndexManifest()
	require.NoError(t, err)
	assert.Len(t, manifest.Manifests, 1)
	assert.NoFileExists(t, o.archive("linux/amd64"))
}

func TestErrorsAreNamed(t *testing.T) {
	folders := []string{"-binaries", t.TempDir(), "-out", t.TempDir()}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no folders":           {nil, "needs -binaries, -out and -platforms"},
		"an argument too many": {append(folders, "push"), "no arguments but flags"},
		"no binary":            {folders, "read the binary for linux/amd64"},
		"no platform":          {append(folders, "-platforms", "a/b/c/d"), `read platform "a/b/c/d"`},
		"a bad name":           {append(folders, "-repository", "No Name"), "name the image"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, run(c.args, io.Discard), c.want) })
	}
}

// files returns those of an image, with what is in them.
func files(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	all := map[string]string{}
	reader := mutate.Extract(image)
	defer reader.Close()
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		assert.EqualValues(t, 0o755, header.Mode)
		assert.Zero(t, header.Uid+header.Gid, "owned by root, so that the process cannot change it")
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		all[header.Name] = string(content)
	}
}
