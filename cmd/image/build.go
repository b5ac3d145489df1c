package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What the Dockerfile says too; a test compares them.
const (
	program = "/nodekeep"
	user    = "65532:65532"
)

// build writes an OCI layout with an index of all platforms, and for each platform an archive that docker load reads.
func build(in places, repository string, about release, said io.Writer) error {
	tag, err := name.NewTag(repository+":"+about.version, name.WithDefaultRegistry(""))
	if err != nil {
		return fmt.Errorf("name the image: %w", err)
	}
	if err := clear(in.out); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range in.platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return fmt.Errorf("read platform %q: %w", p, err)
		}
		content, err := os.ReadFile(in.binary(p))
		if err != nil {
			return fmt.Errorf("read the binary for %s: %w", p, err)
		}
		image, err := imageOf(content, *platform, about)
		if err != nil {
			return fmt.Errorf("make the image for %s: %w", p, err)
		}
		archive := in.made(p, ".tar")
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return fmt.Errorf("write %s: %w", archive, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if _, err := layout.Write(filepath.Join(in.out, "oci"), index); err != nil {
		return fmt.Errorf("write OCI layout: %w", err)
	}
	return report(said, in.out, tag, index)
}

// clear removes what an earlier build left, and makes the folder.
func clear(out string) error {
	old, err := filepath.Glob(filepath.Join(out, "nodekeep-*.tar"))
	if err != nil {
		return fmt.Errorf("look for earlier archives: %w", err)
	}
	for _, path := range append(old, filepath.Join(out, "oci")) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what an earlier build left: %w", err)
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// report says what was made, as people need it next.
func report(w io.Writer, out string, tag name.Tag, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest the index: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s@%s\n  OCI layout: %s\n  for docker load: %s\n",
		tag, digest, filepath.Join(out, "oci"), filepath.Join(out, "nodekeep-*.tar"))
	return err
}

// imageOf is an image of one binary and nothing else.
func imageOf(binary []byte, platform v1.Platform, about release) (v1.Image, error) {
	packed, err := pack(binary, about)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	made := v1.Time{Time: about.time()}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           platform.OS,
		Architecture: platform.Architecture,
		Variant:      platform.Variant,
		Created:      made,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{program},
			WorkingDir: "/",
			Labels:     about.labels(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: made, CreatedBy: "COPY " + program},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	return image, nil
}

func (r release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "nodekeep",
		"org.opencontainers.image.description": "Node labels and taints that survive the Node",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
	}
}

// pack makes the layer: the binary, owned by root, for everybody to run.
func pack(binary []byte, about release) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(program, "/"),
		Mode:     0o755,
		Size:     int64(len(binary)),
		ModTime:  about.time(),
		Format:   tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("pack the binary: %w", err)
	}
	if _, err := w.Write(binary); err != nil {
		return nil, fmt.Errorf("pack the binary: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the binary: %w", err)
	}
	return packed.Bytes(), nil
}
