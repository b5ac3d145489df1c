package cli

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
)

// acceptInventory plans to accept the snapshot of a source that is held; named shows that hash names one.
func (c *cluster) acceptInventory(ctx context.Context, p policy.Policy, hash string, dryRun bool) (_ *plan, named bool, err error) {
	if len(p.Inventory()) == 0 {
		return nil, false, nil
	}
	state, err := c.inventoryState(ctx)
	if err != nil || state == nil {
		return nil, false, err
	}
	for _, source := range p.Inventory() {
		note, ok := capture.InventoryNoteOf(state, source.Name)
		if !ok || note.Held != hash {
			continue
		}
		what := fmt.Sprintf("Inventory %s does not list %d of %d Nodes any more, and would remove or change labels on %d of %d Nodes that live.",
			source.Name, note.Change.Lost, note.Change.Listed, note.Change.Altered, note.Change.Nodes)
		do := func(ctx context.Context) error {
			_, err := c.client.CoreV1().ConfigMaps(c.namespace).Patch(ctx, capture.InventoryName, types.MergePatchType,
				capture.RulesPatch(state, capture.AcceptedKey(source.Name), hash), metav1.PatchOptions{})
			if err := c.failedWrite(c.toRecords("patch"), "ConfigMap "+capture.InventoryName, err); err != nil {
				return err
			}
			return c.done("inventory %s: snapshot %s accepted; capture follows within seconds", source.Name, hash)
		}
		if note.Accepted() {
			do = func(context.Context) error {
				return c.done("inventory %s: snapshot %s was accepted before; capture has still to carry it out", source.Name, hash)
			}
		}
		if dryRun {
			return nil, true, c.done("%s Nothing was changed (dry run).", what)
		}
		return &plan{question: what + "\nAccept it?", same: note, do: do}, true, nil
	}
	return nil, false, nil
}
