package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	imagev1 "github.com/opencontainers/image-spec/specs-go/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// image is the one image there is, unpacked.
type image struct {
	name   string // as pods name it
	id     digest.Digest
	size   uint64
	root   string // its files
	config imagev1.Image
}

// unpack reads an OCI layout, of which it takes the image for this platform, and unpacks it into a folder.
func unpack(layout, name, into string) (*image, error) {
	var index imagev1.Index
	if err := readJSON(filepath.Join(layout, imagev1.ImageIndexFile), &index); err != nil {
		return nil, err
	}
	described, err := choose(layout, index)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", layout, err)
	}
	img := &image{name: name, root: filepath.Join(into, "root")}
	var manifest imagev1.Manifest
	if err := readJSON(blob(layout, described.Digest), &manifest); err != nil {
		return nil, err
	}
	if err := readJSON(blob(layout, manifest.Config.Digest), &img.config); err != nil {
		return nil, err
	}
	img.id = manifest.Config.Digest
	for _, layer := range manifest.Layers {
		img.size += uint64(layer.Size)
		if err := unpackLayer(blob(layout, layer.Digest), img.root); err != nil {
			return nil, fmt.Errorf("unpack layer %s: %w", layer.Digest, err)
		}
	}
	return img, nil
}

// choose follows indexes to the manifest for this platform.
func choose(layout string, index imagev1.Index) (imagev1.Descriptor, error) {
	for _, d := range index.Manifests {
		if d.Platform != nil && (d.Platform.OS != runtime.GOOS || d.Platform.Architecture != runtime.GOARCH) {
			continue
		}
		if d.MediaType == imagev1.MediaTypeImageManifest || strings.HasSuffix(d.MediaType, ".manifest.v2+json") {
			return d, nil
		}
		var nested imagev1.Index
		if err := readJSON(blob(layout, d.Digest), &nested); err != nil {
			return imagev1.Descriptor{}, err
		}
		if found, err := choose(layout, nested); err == nil {
			return found, nil
		}
	}
	return imagev1.Descriptor{}, fmt.Errorf("there is none for %s/%s", runtime.GOOS, runtime.GOARCH)
}

func blob(layout string, d digest.Digest) string {
	return filepath.Join(layout, imagev1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// unpackLayer unpacks a layer over those below it. Whiteouts, by which a layer removes what is below, are refused.
func unpackLayer(path, root string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var content io.Reader = file
	if zipped, err := gzip.NewReader(file); err == nil {
		content = zipped
	} else if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	into, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer into.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(into, header, archive); err != nil {
			return fmt.Errorf("unpack %s: %w", header.Name, err)
		}
	}
}

// unpackEntry unpacks one file or folder. The image cannot lead out of the root.
func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	if strings.HasPrefix(filepath.Base(header.Name), ".wh.") {
		return errors.New("it is a whiteout")
	}
	name := filepath.Join(".", filepath.Clean("/"+header.Name))
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	var err error
	switch header.Typeflag {
	case tar.TypeDir:
		err = root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return errors.Join(root.Symlink(header.Linkname, name), root.Lchown(name, header.Uid, header.Gid))
	case tar.TypeReg:
		err = write(root, name, content)
	default:
		return fmt.Errorf("its type is %q", header.Typeflag)
	}
	// The mode after the owner: a change of owner clears setuid.
	return errors.Join(err, root.Chown(name, header.Uid, header.Gid), root.Chmod(name, header.FileInfo().Mode()))
}

func write(root *os.Root, name string, content io.Reader) error {
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// is reports whether this is the image that a pod names.
func (i *image) is(name string) bool {
	return name == i.name || name == i.id.String() || name == i.id.Encoded()
}

func (i *image) describe() *cri.Image {
	described := &cri.Image{Id: i.id.String(), RepoTags: []string{i.name}, Size: i.size, Spec: &cri.ImageSpec{Image: i.name}}
	user, _, _ := strings.Cut(i.config.Config.User, ":")
	if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
		described.Uid = &cri.Int64Value{Value: uid}
	} else {
		described.Username = user
	}
	return described
}

// images is the image service of the CRI.
type images struct {
	cri.UnimplementedImageServiceServer
	image  *image
	state  string
	faults faultsFile
}

// has reports whether there is an image of that name.
func (s *images) has(name string) (bool, error) {
	faults, err := s.faults.read()
	return s.image.is(name) && !faults.NoImage, err
}

func (s *images) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	if has, err := s.has(s.image.name); !has {
		return &cri.ListImagesResponse{}, err
	}
	return &cri.ListImagesResponse{Images: []*cri.Image{s.image.describe()}}, nil
}

func (s *images) ImageStatus(_ context.Context, r *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	if has, err := s.has(r.GetImage().GetImage()); !has {
		return &cri.ImageStatusResponse{}, err
	}
	return &cri.ImageStatusResponse{Image: s.image.describe()}, nil
}

func (s *images) PullImage(_ context.Context, r *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := r.GetImage().GetImage()
	if has, err := s.has(name); !has {
		return nil, errors.Join(fmt.Errorf("pull image %s: there is %s here at most, and nowhere to pull from", name, s.image.name), err)
	}
	return &cri.PullImageResponse{ImageRef: s.image.id.String()}, nil
}

func (s *images) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	use := &cri.FilesystemUsage{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &cri.FilesystemIdentifier{Mountpoint: s.state},
		UsedBytes:  &cri.UInt64Value{Value: s.image.size},
		InodesUsed: &cri.UInt64Value{Value: 1},
	}
	return &cri.ImageFsInfoResponse{ImageFilesystems: []*cri.FilesystemUsage{use}, ContainerFilesystems: []*cri.FilesystemUsage{use}}, nil
}
