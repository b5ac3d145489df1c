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
	imageFolder    = "image"
	binariesFolder = "binaries" // of nodekeep, by system and architecture
	suiteFile      = "e2e.test" // the end-to-end suite
)

// built returns the folder with what was built.
func built(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(isolatedVariable)
	require.NotEmpty(t, dir, "this process is not on a machine of its own; runTests sees to that")
	return dir
}

// build compiles the machine, the nodekeep image and the end-to-end suite. It happens outside of the machine, which has no network.
func build(ctx context.Context, dir string) error {
	const program = "./cmd/nodekeep"
	binaries := filepath.Join(dir, binariesFolder)
	for _, step := range [][]string{
		{"build", "-C", filepath.Join("test", "e2e", "machine"), "-o", filepath.Join(dir, machineFile), "."},
		{"build", "-o", filepath.Join(binaries, runtime.GOOS, runtime.GOARCH, "nodekeep"), program},
		{"run", "-C", "cmd/image", ".", "-binaries", binaries, "-platforms", runtime.GOOS + "/" + runtime.GOARCH, "-out", filepath.Join(dir, imageFolder), "-version", "test"},
		{"test", "-c", "-tags", "e2e", "-o", filepath.Join(dir, suiteFile), "./test/e2e"},
	} {
		command := exec.CommandContext(ctx, "go", step...)
		command.Dir = harness.Root()
		if step[len(step)-1] == program {
			command.Env = append(os.Environ(), "CGO_ENABLED=0") // the image has no libraries
		}
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", step[0], err, out)
		}
	}
	return nil
}
