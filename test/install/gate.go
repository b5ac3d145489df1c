package install

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// offSwitch is the RoleBinding without which the API server gates no Node.
const offSwitch = "nodekeep-gate"

// GateOff turns the gate policy's off switch. API servers notice within moments.
func (i *Installation) GateOff(ctx context.Context) error {
	if err := i.Admin.RbacV1().RoleBindings(Namespace).Delete(ctx, offSwitch, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("switch gate policy off: %w", err)
	}
	return nil
}

// GateOn puts everything of the gate policy in place that is not.
func (i *Installation) GateOn(ctx context.Context) error {
	if out, err := i.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(i.manifests, manifest), "-l", "app.kubernetes.io/component=gate"); err != nil {
		return fmt.Errorf("switch gate policy on: %w\n%s", err, out)
	}
	return nil
}
