// Command image makes the container image of nodekeep, and its bill of materials, without a container engine: the very layout that
// the Dockerfile describes. It takes binaries that are already built.
//
// Invariants:
//   - The same binaries, version, commit and time give the same bytes, wherever and whenever it runs.
//   - An image is one binary and its configuration. There is no base: nothing in it is ours to update but nodekeep.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: build or sbom; -h behind it lists its flags")
	}
	switch args[0] {
	case "build":
		return runBuild(args[1:])
	case "sbom":
		return runSBOM(args[1:])
	}
	return fmt.Errorf("%q: only build and sbom are known", args[0])
}

func runBuild(args []string) error {
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	repository := flags.String("repository", "nodekeep", "what docker load calls the image, without a tag; the version is the tag")
	in, about, err := read(flags, args)
	if err != nil {
		return err
	}
	return build(in, *repository, about, os.Stdout)
}

func runSBOM(args []string) error {
	in, about, err := read(flag.NewFlagSet("sbom", flag.ExitOnError), args)
	if err != nil {
		return err
	}
	return writeSBOMs(in, about, os.Stdout)
}

// places say where binaries are found, and where what is made of them goes.
type places struct {
	binaries  string // holds OS/ARCHITECTURE/nodekeep
	platforms []string
	out       string
}

func read(flags *flag.FlagSet, args []string) (in places, about release, err error) {
	flags.StringVar(&in.binaries, "binaries", "", "folder with OS/ARCHITECTURE/nodekeep for each platform")
	flags.StringVar(&in.out, "out", "", "folder for what is made; what was made there before is replaced")
	platforms := flags.String("platforms", "linux/amd64 linux/arm64", "what to make it for, with blanks between")
	about.addTo(flags)
	if err := flags.Parse(args); err != nil {
		return in, about, err
	}
	in.platforms = strings.Fields(*platforms)
	if in.binaries == "" || in.out == "" || len(in.platforms) == 0 || flags.NArg() > 0 {
		return in, about, errors.New("-binaries, -out and -platforms are needed, and nothing else beside flags")
	}
	return in, about, nil
}

// binary is the program for a platform.
func (p places) binary(platform string) string {
	return filepath.Join(p.binaries, filepath.FromSlash(platform), "nodekeep")
}

// made is a file for a platform.
func (p places) made(platform, extension string) string {
	return filepath.Join(p.out, "nodekeep-"+strings.ReplaceAll(platform, "/", "-")+extension)
}

// release is what is built: it goes into labels and the bill of materials, and stands for the time of making.
type release struct {
	version string
	commit  string
	seconds int64 // since 1970, as SOURCE_DATE_EPOCH
}

func (r *release) addTo(flags *flag.FlagSet) {
	flags.StringVar(&r.version, "version", "development", "version that the binaries carry")
	flags.StringVar(&r.commit, "commit", "", "commit that they are built from")
	flags.Int64Var(&r.seconds, "time", 0, "seconds since 1970 that everything is dated with; that of the commit, for builds that can be repeated")
}

func (r release) time() time.Time { return time.Unix(r.seconds, 0).UTC() }
