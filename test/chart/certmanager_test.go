package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// installCertManagerKinds installs the CustomResourceDefinitions that cert-manager publishes with its Go module, in the version that the
// Makefile names.
func installCertManagerKinds(ctx context.Context) error {
	makefile, err := os.ReadFile(filepath.Join(root(), "Makefile"))
	if err != nil {
		return fmt.Errorf("find version of cert-manager: %w", err)
	}
	version := regexp.MustCompile(`(?m)^CERT_MANAGER_VERSION *= *(\S+)$`).FindSubmatch(makefile)
	if version == nil {
		return fmt.Errorf("find version of cert-manager: the Makefile has no CERT_MANAGER_VERSION")
	}
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/cert-manager/cert-manager@"+string(version[1])).Output()
	if err != nil {
		return fmt.Errorf("download cert-manager: %w: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("read where cert-manager is: %w", err)
	}
	args := []string{"apply", "--server-side"}
	for _, kind := range []string{"certificates", "certificaterequests", "issuers", "clusterissuers"} {
		args = append(args, "-f", filepath.Join(module.Dir, "deploy", "crds", "cert-manager.io_"+kind+".yaml"))
	}
	if out, err := kubectl(ctx, args...); err != nil {
		return fmt.Errorf("install kinds of cert-manager: %w\n%s", err, out)
	}
	if out, err := kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/certificates.cert-manager.io", "crd/issuers.cert-manager.io"); err != nil {
		return fmt.Errorf("wait for kinds of cert-manager: %w\n%s", err, out)
	}
	return nil
}
