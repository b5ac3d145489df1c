package harness

import (
	"context"
	_ "embed" // a kind of another project
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const clusterAPI = "sigs.k8s.io/cluster-api@v1.13.6"

// CustomResourceDefinitions of other projects, for [Installation.ApplyCRDs]. Each is read from the Go module of its project.
var (
	KarpenterCRDs  = CRDs{module: "sigs.k8s.io/karpenter@v1.12.0", file: "pkg/apis/crds/karpenter.sh_nodeclaims.yaml"}
	ClusterAPICRDs = CRDs{module: clusterAPI, file: "config/crd/bases/cluster.x-k8s.io_machines.yaml"}

	MachinePoolCRDs        = CRDs{module: clusterAPI, file: "config/crd/bases/cluster.x-k8s.io_machinepools.yaml"}
	MachineHealthCheckCRDs = CRDs{module: clusterAPI, file: "config/crd/bases/cluster.x-k8s.io_machinehealthchecks.yaml"}
	KubeadmConfigCRDs      = CRDs{module: clusterAPI, file: "bootstrap/kubeadm/config/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigs.yaml"}
)

// ApplyCRD applies nodekeep's own CustomResourceDefinition, and waits until it is served.
func (i *Installation) ApplyCRD(ctx context.Context) error {
	return i.applyCRDs(ctx, filepath.Join(i.manifests, crdManifest))
}

// NodeFeatureCRD names the CustomResourceDefinition of NodeFeature objects.
const NodeFeatureCRD = "nodefeatures.nfd.k8s-sigs.io"

// nodeFeatures is the kind NodeFeature of Node Feature Discovery, as far as tests need it.
//
//go:embed nodefeatures.yaml
var nodeFeatures []byte

// ApplyNodeFeatures applies [NodeFeatureCRD], and waits until it is served.
func (i *Installation) ApplyNodeFeatures(ctx context.Context) error {
	path := filepath.Join(i.Cluster.Dir(), "nodefeatures.yaml")
	if err := os.WriteFile(path, nodeFeatures, 0o600); err != nil {
		return err
	}
	return i.applyCRDs(ctx, path)
}

// CRDs are a file of a Go module.
type CRDs struct{ module, file string }

// ApplyCRDs applies CustomResourceDefinitions and waits until they are served. The module is downloaded as a whole and is no dependency of nodekeep.
func (i *Installation) ApplyCRDs(ctx context.Context, all ...CRDs) error {
	for _, crds := range all {
		download := exec.CommandContext(ctx, "go", "mod", "download", "-json", crds.module)
		download.Dir = i.Cluster.Dir() // outside of every module
		out, err := download.Output()
		var module struct{ Dir, Error string }
		if decodeErr := json.Unmarshal(out, &module); decodeErr != nil || module.Dir == "" {
			return fmt.Errorf("download %s: %w: %s", crds.module, err, out)
		}
		path := filepath.Join(module.Dir, filepath.FromSlash(crds.file))
		if err := i.applyCRDs(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func (i *Installation) applyCRDs(ctx context.Context, path string) error {
	if out, err := i.Kubectl(ctx, "apply", "--server-side", "-f", path); err != nil {
		return fmt.Errorf("apply %s: %w\n%s", path, err, out)
	}
	for {
		out, err := i.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=180s", "-f", path)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !strings.Contains(out, noConditions):
			return fmt.Errorf("wait for %s: %w\n%s", path, err, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// noConditions is what kubectl wait ends with where the API server has not yet written a condition of a new definition.
const noConditions = ".status.conditions accessor error"
