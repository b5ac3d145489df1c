// Command image makes the container image of nodekeep without a container engine. The layout is the one that the Dockerfile describes. It takes
// binaries that are already built.
//
// It uses go-containerregistry's packages. Its command crane cannot date an image with a commit, and needs a registry for an image of several
// platforms. The tool ko needs a base image from a registry, and puts more than one file into the image.
//
// Invariants:
//   - The same binaries, version, commit and time give the same bytes, wherever and whenever it runs.
//   - An image is one binary and its configuration. It has no base: we have nothing in it to update but nodekeep.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options say what is made, of what, and where.
type options struct {
	binaries   string // holds OS/ARCHITECTURE/nodekeep
	platforms  []string
	out        string
	repository string
	version    string
	commit     string
	seconds    int64 // since 1970, as SOURCE_DATE_EPOCH: the time of making
}

func run(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.binaries, "binaries", "", "folder with OS/ARCHITECTURE/nodekeep for each platform")
	platforms := flags.String("platforms", "linux/amd64 linux/arm64", "platforms, separated by spaces")
	flags.StringVar(&o.out, "out", "", "folder for the image; it replaces an earlier one there")
	flags.StringVar(&o.repository, "repository", "nodekeep", "what docker load calls the image, without a tag; the version is the tag")
	flags.StringVar(&o.version, "version", "development", "version that the binaries carry")
	flags.StringVar(&o.commit, "commit", "", "commit that they are built from")
	flags.Int64Var(&o.seconds, "time", 0, "date of the image and all in it, in seconds since 1970; that of the commit, for builds that can be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.platforms = strings.Fields(*platforms)
	if o.binaries == "" || o.out == "" || len(o.platforms) == 0 || flags.NArg() > 0 {
		return errors.New("needs -binaries, -out and -platforms, and takes no arguments but flags")
	}
	return o.build(out)
}

func (o options) time() time.Time { return time.Unix(o.seconds, 0).UTC() }

// archive returns the file that docker load reads, for a platform.
func (o options) archive(platform string) string {
	return filepath.Join(o.out, "nodekeep-"+strings.ReplaceAll(platform, "/", "-")+".tar")
}
