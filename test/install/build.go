package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds nodekeep as it is shipped: static and stripped. Linked dynamically, it would carry the names of all symbols, and
// take more memory than what people run.
func Build(ctx context.Context, binary string) error {
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/nodekeep")
	build.Dir, build.Env = root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build nodekeep: %w\n%s", err, out)
	}
	return nil
}
