package cli

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// planAcceptInventory plans to accept the snapshot of a source that is held; named reports whether hash is that of a held snapshot. To accept it takes these
// rights, which are only checked then.
func (c *session) planAcceptInventory(ctx context.Context, p policy.Policy, hash string, rights []doctor.Right) (_ *proposal, named bool, err error) {
	if len(p.Inventory()) == 0 {
		return nil, false, nil
	}
	state, err := c.GetInventoryState(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, source := range p.Inventory() {
		status, ok := inventories.SourceStatusOf(state, source.Name)
		switch {
		case !ok || status.Held != hash:
			continue
		case status.Accepted():
			return nil, true, c.doneForCapture(ctx, "inventory %s: snapshot %s was accepted before; capture has still to carry it out", source.Name, hash)
		}
		if err := c.RequireRights(ctx, rights); err != nil {
			return nil, true, err
		}
		subject := fmt.Sprintf("Once accepted, inventory %s would remove or change labels on %d of %s that live.", source.Name, status.Change.Altered, view.Counted(status.Change.Nodes, "Node"))
		if lost := status.Change.Lost; lost > 0 {
			subject += fmt.Sprintf(" It no longer lists %d of %s.", lost, view.Counted(status.Change.Listed, "Node"))
		}
		return &proposal{summary: subject, question: "Accept it?", fingerprint: status, apply: func(ctx context.Context) error {
			_, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Patch(ctx, inventories.InventoryName, types.MergePatchType,
				store.PatchOf(state, inventories.AcceptedKey(source.Name), hash), metav1.PatchOptions{})
			if err := c.explainWriteError(c.RecordsRight("patch"), "ConfigMap "+inventories.InventoryName, err); err != nil {
				return err
			}
			return c.doneForCapture(ctx, "inventory %s: snapshot %s accepted; capture follows within seconds", source.Name, hash)
		}}, true, nil
	}
	return nil, false, nil
}
