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

var tried = release{version: "v1.2.3", commit: "0123abc", seconds: 1_700_000_000}

// binaries is a folder with a program for each platform.
func binaries(t *testing.T, platforms ...string) places {
	t.Helper()
	in := places{binaries: t.TempDir(), platforms: platforms, out: t.TempDir()}
	for _, platform := range platforms {
		require.NoError(t, os.MkdirAll(filepath.Dir(in.binary(platform)), 0o755))
		require.NoError(t, os.WriteFile(in.binary(platform), []byte("the program for "+platform), 0o755))
	}
	return in
}

func built(t *testing.T, in places, about release) v1.ImageIndex {
	t.Helper()
	require.NoError(t, build(in, "example.com/nodekeep", about, io.Discard))
	outer, err := layout.ImageIndexFromPath(filepath.Join(in.out, "oci"))
	require.NoError(t, err)
	require.NoError(t, validate.Index(outer))
	return outer
}

func TestTheIndexHasAnImageForEachPlatform(t *testing.T) {
	index := built(t, binaries(t, "linux/amd64", "linux/arm64"), tried)
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
	in := binaries(t, "linux/arm64")
	built(t, in, tried)
	tag, err := name.NewTag("example.com/nodekeep:v1.2.3")
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(filepath.Join(in.out, "nodekeep-linux-arm64.tar"), &tag)
	require.NoError(t, err)
	require.NoError(t, validate.Image(image))
	assert.Equal(t, map[string]string{"nodekeep": "the program for linux/arm64"}, files(t, image))
}

func TestTheSameInputGivesTheSameDigestAndAnyOtherAnother(t *testing.T) {
	digest := func(about release, platforms ...string) string {
		d, err := built(t, binaries(t, platforms...), about).Digest()
		require.NoError(t, err)
		return d.String()
	}
	first := digest(tried, "linux/amd64", "linux/arm64")
	assert.Equal(t, first, digest(tried, "linux/amd64", "linux/arm64"))
	later := tried
	later.seconds++
	assert.NotEqual(t, first, digest(later, "linux/amd64", "linux/arm64"))
	other := tried
	other.version = "v1.2.4"
	assert.NotEqual(t, first, digest(other, "linux/amd64", "linux/arm64"))
	assert.NotEqual(t, first, digest(tried, "linux/amd64"))
}

func TestAnEarlierBuildIsReplaced(t *testing.T) {
	in := binaries(t, "linux/amd64", "linux/arm64")
	built(t, in, tried)
	in.platforms = []string{"linux/arm64"}
	manifest, err := built(t, in, tried).IndexManifest()
	require.NoError(t, err)
	assert.Len(t, manifest.Manifests, 1)
	assert.NoFileExists(t, filepath.Join(in.out, "nodekeep-linux-amd64.tar"))
}

func TestMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":              {nil, "build or sbom"},
		"something else":       {[]string{"push"}, `"push"`},
		"no folders":           {[]string{"build"}, "-binaries, -out and -platforms are needed"},
		"an argument too many": {[]string{"build", "-binaries", "a", "-out", "b", "c"}, "nothing else beside flags"},
		"no binary":            {[]string{"build", "-binaries", t.TempDir(), "-out", t.TempDir()}, "read the binary for linux/amd64"},
		"a bad name":           {[]string{"build", "-binaries", t.TempDir(), "-out", t.TempDir(), "-repository", "No Name"}, "name the image"},
		"no program":           {[]string{"sbom", "-binaries", binaries(t, "linux/amd64").binaries, "-platforms", "linux/amd64", "-out", t.TempDir()}, "read what"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, run(c.args), c.want) })
	}
}

// files are those of an image, with what is in them.
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
