package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Names of the programs, which are also the names of their processes and log files.
const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	schedulerName         = "kube-scheduler"
	controllerManagerName = "kube-controller-manager"
)

// assetsVariable names the folder to take the programs from instead of building them, as in controller-runtime's envtest.
const assetsVariable = "KUBEBUILDER_ASSETS"

// moduleLine is how this module's go.mod is distinguished from others on the way up.
const moduleLine = "module nodekeep.dev/nodekeep\n"

// Binary returns the path of a program of the control plane: etcd, kube-apiserver, kube-scheduler, kube-controller-manager or
// kubectl. It lies in KUBEBUILDER_ASSETS when that is set, else where `make controlplane` puts it. Binary does not
// look whether it is there; StartCluster does.
func Binary(name string) string {
	if dir := os.Getenv(assetsVariable); dir != "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(Root(), "test", "programs", "controlplane", "bin", name)
}

// checkBinaries reports what to do when one of the programs is missing.
func checkBinaries(names []string) error {
	for _, name := range names {
		path := Binary(name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			continue
		}
		if os.Getenv(assetsVariable) != "" {
			return fmt.Errorf("find %s: not in %s, to which %s points: unset that and run `make controlplane`", name, filepath.Dir(path), assetsVariable)
		}
		return fmt.Errorf("find %s: not in %s: run `make controlplane`", name, filepath.Dir(path))
	}
	return nil
}

// Root returns the folder of this module's go.mod above this source file. In a program built with -trimpath it is above the working directory. If there is
// no such folder, it is the working directory.
func Root() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if root, found := rootAbove(filepath.Dir(file)); found {
			return root
		}
	}
	if wd, err := os.Getwd(); err == nil {
		if root, found := rootAbove(wd); found {
			return root
		}
	}
	return "."
}

func rootAbove(dir string) (root string, found bool) {
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte(moduleLine)) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
