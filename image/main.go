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
	binaries := flags.String("binaries", "", "folder with OS-ARCHITECTURE/nodekeep for each platform")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "what to build for")
	out := flags.String("out", "", "folder for the image; what is there is replaced")
	repository := flags.String("repository", "nodekeep", "what docker load calls the image, without a tag; the version is the tag")
	var about release
	about.addTo(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binaries == "" || *out == "" {
		return errors.New("build: --binaries and --out are needed")
	}
	return build(*binaries, *out, *repository, strings.Split(*platforms, ","), about)
}

func runSBOM(args []string) error {
	flags := flag.NewFlagSet("sbom", flag.ExitOnError)
	binary := flags.String("binary", "", "the program to tell the parts of")
	out := flags.String("out", "", "file for the bill of materials, CycloneDX in JSON")
	var about release
	about.addTo(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binary == "" || *out == "" {
		return errors.New("sbom: --binary and --out are needed")
	}
	return writeSBOM(*binary, *out, about)
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
