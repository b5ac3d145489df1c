package main

import (
	"archive/tar"
	"bytes"
	"errors"
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

// build writes an OCI layout with an index of all platforms. For each platform it writes an archive that docker load reads. It writes to said what it
// has made.
func (o options) build(out io.Writer) error {
	tag, err := name.NewTag(o.repository+":"+o.version, name.WithDefaultRegistry(""))
	if err != nil {
		return fmt.Errorf("name the image: %w", err)
	}
	if err := o.clear(); err != nil {
		return fmt.Errorf("remove an earlier build: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range o.platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return fmt.Errorf("read platform %q: %w", p, err)
		}
		content, err := os.ReadFile(filepath.Join(o.binaries, filepath.FromSlash(p), "nodekeep"))
		if err != nil {
			return fmt.Errorf("read the binary for %s: %w", p, err)
		}
		image, err := o.image(content, *platform)
		if err != nil {
			return fmt.Errorf("make the image for %s: %w", p, err)
		}
		if err := tarball.WriteToFile(o.archive(p), tag, image); err != nil {
			return fmt.Errorf("write %s: %w", o.archive(p), err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	oci := filepath.Join(o.out, "oci")
	if _, err := layout.Write(oci, index); err != nil {
		return fmt.Errorf("write OCI layout: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest the index: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s@%s\n  OCI layout: %s\n  for docker load: %s\n", tag, digest, oci, o.archive("*"))
	return err
}

// clear removes an earlier build, and makes the folder.
func (o options) clear() error {
	old, err := filepath.Glob(o.archive("*"))
	for _, path := range append(old, filepath.Join(o.out, "oci")) {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return errors.Join(err, os.MkdirAll(o.out, 0o755))
}

// image returns an image of one binary and nothing else.
func (o options) image(binary []byte, platform v1.Platform) (v1.Image, error) {
	packed, err := o.pack(binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	made := v1.Time{Time: o.time()}
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
			Labels: map[string]string{
				"org.opencontainers.image.title":       "nodekeep",
				"org.opencontainers.image.description": "Node labels and taints that survive the Node",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     o.version,
				"org.opencontainers.image.revision":    o.commit,
			},
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

// pack makes the layer: the binary, owned by root, for everybody to run.
func (o options) pack(binary []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(program, "/"),
		Mode:     0o755,
		Size:     int64(len(binary)),
		ModTime:  o.time(),
		Format:   tar.FormatPAX,
	}
	err := w.WriteHeader(header)
	if err == nil {
		_, err = w.Write(binary)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("pack the binary: %w", err)
	}
	return packed.Bytes(), nil
}
