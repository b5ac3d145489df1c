package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// root is the folder of the module.
const root = "../../.."

// stamped is what the images of these tests carry: the same, wherever they are built.
var stamped = []string{"COMMIT=0123456789abcdef0123456789abcdef01234567", "SOURCE_DATE_EPOCH=1700000000"}

// built is an image as `make image` leaves it, for the platform of this machine.
type built struct {
	dir    string
	digest string // of the index
	config config
	layers []string // their files
}

// config is what an image says about its process.
type config struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		Cmd        []string          `json:"Cmd"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
}

// makeImage builds the image from the sources in a folder.
func makeImage(t *testing.T, sources string) built {
	t.Helper()
	b := built{dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // all of it, on a machine that has built nothing yet
	defer cancel()
	command := exec.CommandContext(ctx, "make", append([]string{"-C", sources, "image", "IMAGE_DIR=" + b.dir, "PLATFORMS=linux/" + runtime.GOARCH}, stamped...)...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))

	// index.json is the index of all platforms itself.
	content, err := os.ReadFile(filepath.Join(b.dir, "oci", "index.json"))
	require.NoError(t, err)
	b.digest = fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	require.Contains(t, string(out), "@"+b.digest, "it says what it has made")
	var index, manifest struct {
		Manifests []descriptor `json:"manifests"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	b.read(t, filepath.Join(b.dir, "oci", "index.json"), &index)
	require.Len(t, index.Manifests, 1)
	b.read(t, b.blob(index.Manifests[0]), &manifest)
	b.read(t, b.blob(manifest.Config), &b.config)
	for _, layer := range manifest.Layers {
		b.layers = append(b.layers, b.blob(layer))
	}
	return b
}

type descriptor struct {
	Digest string `json:"digest"`
}

func (b built) blob(d descriptor) string {
	return filepath.Join(b.dir, "oci", "blobs", strings.ReplaceAll(d.Digest, ":", "/"))
}

func (b built) read(t *testing.T, file string, target any) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, target))
}

// unpack lays the image out as a container's root and returns its files.
func (b built) unpack(t *testing.T, dest string) (names []string) {
	t.Helper()
	for _, layer := range b.layers {
		file, err := os.Open(layer)
		require.NoError(t, err)
		defer file.Close()
		plain, err := gzip.NewReader(file)
		require.NoError(t, err)
		for archive := tar.NewReader(plain); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, byte(tar.TypeReg), header.Typeflag, header.Name)
			require.True(t, filepath.IsLocal(header.Name), header.Name)
			names = append(names, header.Name)
			target, err := os.OpenFile(filepath.Join(dest, header.Name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, fs.FileMode(header.Mode))
			require.NoError(t, err)
			_, err = io.Copy(target, archive)
			require.NoError(t, errors.Join(err, target.Close()))
		}
	}
	return names
}

// copySources copies the Makefile and what .dockerignore lets into the Docker build, to another folder without a repository: an image can
// be built from that alone.
func copySources(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	context, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	names := []string{"Makefile"}
	for line := range strings.Lines(string(context)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		from := filepath.Join(root, name)
		info, err := os.Stat(from)
		require.NoError(t, err)
		if info.IsDir() {
			require.NoError(t, os.CopyFS(filepath.Join(to, name), os.DirFS(from)))
			continue
		}
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), content, 0o600))
	}
	return to
}
