package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// What the folder that runTests builds into holds.
const (
	machineFile    = "machine"
	binariesFolder = "binaries" // of nodekeep, by system and architecture
	pauseFolder    = "pause"    // of the program of a pod's sandbox, as a binary of that name
	suiteFile      = "e2e.test" // the end-to-end suite
)

// registryAddress is the registry of the machine, whose network no other process has. Container runtimes need no TLS for one on loopback.
const registryAddress = "127.0.0.1:5000"

// releases are the versions of nodekeep that are packed for the registry at registryAddress, each in a folder of its name.
var releases = []string{"v0.0.1-dev", "v0.0.2-dev"}

// archive returns the file of an image for docker load, whose binaries are in a folder.
func archive(dir, folder string) string {
	return filepath.Join(dir, folder, fmt.Sprintf("nodekeep-%s-%s.tar", runtime.GOOS, runtime.GOARCH))
}

// built returns the folder with what was built.
func built(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(isolatedVariable)
	require.NotEmpty(t, dir, "this process is not on a machine of its own; runTests sees to that")
	return dir
}

// build compiles the machine, the images, the releases and the end-to-end suite. It happens outside of the machine, which has no network.
func build(ctx context.Context, dir string) error {
	machine := filepath.Join("test", "e2e", "machine")
	program := func(folder string) string {
		return filepath.Join(dir, folder, runtime.GOOS, runtime.GOARCH, "nodekeep")
	}
	packed := func(folder, repository string) []string {
		return []string{
			"run", "-C", "cmd/image", ".", "-binaries", filepath.Join(dir, folder), "-platforms", runtime.GOOS + "/" + runtime.GOARCH,
			"-out", filepath.Join(dir, folder), "-repository", repository, "-version", "test",
		}
	}
	for _, step := range [][]string{
		{"build", "-C", machine, "-o", filepath.Join(dir, machineFile), "."},
		{"build", "-C", machine, "-o", program(pauseFolder), "./pause"},
		{"build", "-o", program(binariesFolder), "./cmd/nodekeep"},
		packed(pauseFolder, "pause"),
		packed(binariesFolder, "nodekeep"),
		{"test", "-c", "-tags", "e2e", "-o", filepath.Join(dir, suiteFile), "./test/e2e"},
	} {
		if err := execute(ctx, "go", step...); err != nil {
			return err
		}
	}
	for _, version := range releases {
		if err := execute(ctx, "make", "package", "VERSION="+version, "IMAGE="+registryAddress+"/nodekeep", "IMAGE_DIR="+filepath.Join(dir, version),
			"PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Env = harness.Root(), append(os.Environ(), "CGO_ENABLED=0") // images have no libraries
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, args[0], err, out)
	}
	return nil
}
