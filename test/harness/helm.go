package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Chart returns the path of the chart.
func Chart() string { return filepath.Join(Root(), "manifests", "chart") }

// Helm returns the path of the Helm of the version that the Makefile names; `make tools` builds it.
func Helm() (string, error) { return Tool("helm") }

// Tool returns the path of a program of the version that the Makefile names. The targets of make that need it build it.
func Tool(name string) (string, error) {
	makefile, err := os.ReadFile(filepath.Join(Root(), "Makefile"))
	if err != nil {
		return "", fmt.Errorf("find version of %s: %w", name, err)
	}
	version := regexp.MustCompile(`(?m)^` + strings.ToUpper(name) + `_VERSION *= *(\S+)$`).FindSubmatch(makefile)
	if version == nil {
		return "", fmt.Errorf("find version of %s: the Makefile has no %s_VERSION", name, strings.ToUpper(name))
	}
	path := filepath.Join(Root(), ".bin", name+"-"+string(version[1]))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s: %w; make %s builds it", name, err, path)
	}
	return path, nil
}

// RunHelm runs Helm with a home of its own and returns what it prints on stdout. The error holds what it prints on stderr.
func RunHelm(ctx context.Context, args ...string) ([]byte, error) {
	binary, err := Helm()
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "nodekeep-helm-")
	if err != nil {
		return nil, fmt.Errorf("make home of helm: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }()
	command := exec.CommandContext(ctx, binary, args...)
	command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("helm %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Template renders the chart for the release nodekeep in a namespace and Kubernetes 1.36, without hooks. Further arguments of `helm template` are
// args, which win.
func Template(ctx context.Context, namespace string, args ...string) ([]byte, error) {
	return RunHelm(ctx, append([]string{"template", "nodekeep", Chart(), "--namespace", namespace, "--no-hooks", "--kube-version", "1.36"}, args...)...)
}
