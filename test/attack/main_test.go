package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTestsOn(m, harness.Options{}, func(ctx context.Context, control *harness.Cluster) (err error) {
		if nodekeep, err = harness.Install(ctx, control); err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		if err := nodekeep.ApplyCRDs(ctx, harness.KarpenterCRDs, harness.ClusterAPICRDs); err != nil {
			return err
		}
		if err := nodekeep.ApplyNodeFeatures(ctx); err != nil {
			return err
		}
		for _, name := range []string{"agents", "shop"} { // the profiles name them
			if out, err := nodekeep.Kubectl(ctx, "create", "namespace", name); err != nil {
				return fmt.Errorf("create namespace: %w: %s", err, out)
			}
		}
		return applyEverything(ctx)
	}))
}

// applyEverything applies the chart with everything turned on. The Job of the uninstall is left out: only its rights matter here.
func applyEverything(ctx context.Context) error {
	values, err := filepath.Abs(filepath.Join("testdata", "everything.yaml"))
	if err != nil {
		return err
	}
	rendered, err := harness.RunHelm(ctx, "template", "nodekeep", harness.Chart(), "--namespace", harness.Namespace, "--kube-version", "1.36", "--values", values)
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096); ; {
		var object unstructured.Unstructured
		if err := reader.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read what Helm renders: %w", err)
		}
		if len(object.Object) == 0 || object.GetKind() == "Job" {
			continue
		}
		document, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s\n---\n", document)
	}
	file := filepath.Join(nodekeep.Cluster.Dir(), "everything.yaml")
	if err := os.WriteFile(file, all.Bytes(), 0o600); err != nil {
		return err
	}
	if out, err := nodekeep.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file); err != nil {
		return fmt.Errorf("apply everything: %w: %s", err, out)
	}
	return nil
}
