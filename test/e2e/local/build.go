package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"

	"nodekeep.dev/nodekeep/test/harness"
)

// What the folder that RunTests builds into holds.
const (
	machineFile    = "machine"
	imageFolder    = "image"
	binariesFolder = "binaries" // of nodekeep, by system and architecture
)

// isolated is the folder with what was built.
func isolated() (string, error) {
	if dir := os.Getenv(isolatedVariable); dir != "" {
		return dir, nil
	}
	return "", errors.New("start node: this process is not on a machine of its own; RunTests sees to that")
}

// Compiled is the path of a test package that RunTests has compiled.
func Compiled(testPackage string) string {
	return filepath.Join(os.Getenv(isolatedVariable), path.Base(testPackage)+".test")
}

// build compiles the machine, the nodekeep image and test packages. It happens outside of the machine, which has no network.
func build(ctx context.Context, dir string, testPackages []string) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	const program = "./cmd/nodekeep"
	binaries := filepath.Join(dir, binariesFolder)
	steps := [][]string{
		{"build", "-C", filepath.Join("test", "e2e", "machine"), "-o", filepath.Join(dir, machineFile), "."},
		{"build", "-o", filepath.Join(binaries, runtime.GOOS, runtime.GOARCH, "nodekeep"), program},
		{"run", "-C", "cmd/image", ".", "-binaries", binaries, "-platforms", platform, "-out", filepath.Join(dir, imageFolder), "-version", "test"},
	}
	for _, p := range testPackages {
		steps = append(steps, []string{"test", "-c", "-tags", "e2e", "-o", filepath.Join(dir, path.Base(p)+".test"), "./" + p})
	}
	for _, step := range steps {
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
