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

// build compiles the machine, the images and the end-to-end suite. It happens outside of the machine, which has no network.
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
		command := exec.CommandContext(ctx, "go", step...)
		command.Dir, command.Env = harness.Root(), append(os.Environ(), "CGO_ENABLED=0") // images have no libraries
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", step[0], err, out)
		}
	}
	return nil
}
