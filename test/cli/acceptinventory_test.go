package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/inventory/fetch"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// racksPolicy has an inventory in a ConfigMap, and a rule that makes a label of it.
var racksPolicy = policytest.Manifest(`labels:
  rules:
  - {name: rack, set: {example.com/rack: "{inventory.racks.rack}"}}
inventory:
- {name: racks, configMap: racks, interval: 1s, attributes: [rack]}
`)

// listRacks has the inventory say that these Nodes are in a rack.
func listRacks(t *testing.T, rack string, nodes ...string) {
	t.Helper()
	var entries []string
	for _, name := range nodes {
		entries = append(entries, fmt.Sprintf(`{"name":%q,"attributes":{"rack":%q}}`, name, rack))
	}
	document := `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` + strings.Join(entries, ",") + `]}`
	hasMap(t, harness.Namespace, "racks", fetch.Key, document)
}

// racksNote returns what capture notes of the inventory.
func racksNote(t *testing.T) (status inventories.SourceStatus) {
	t.Helper()
	found, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), inventories.InventoryName, metav1.GetOptions{})
	if err == nil {
		status, _ = inventories.SourceStatusOf(found, "racks")
	}
	return status
}

func TestAHeldSnapshotOfAnInventoryChangesLabelsOnceAnOperatorAcceptsIt(t *testing.T) {
	names := []string{"accept-inventory-1", "accept-inventory-2", "accept-inventory-3"}
	listRacks(t, "r7", names...)
	defer withPolicy(t, racksPolicy)()
	const rack = `example\.com/rack`
	for _, name := range names {
		register(t, name)
	}
	allHave(t, rack, "r7")
	first := racksNote(t)
	assert.NotEmpty(t, first.InForce, "capture has the right to read the ConfigMap and to write the note")
	requireGolden(t, "explain-inventory", strings.ReplaceAll(run(t, "explain", names[0]).RequireDone(t).Out, first.InForce, "<hash here>"))

	listRacks(t, "r8", names...)
	harness.Eventually(t, func() bool { return racksNote(t).Held != "" }, settles, 100*time.Millisecond)
	held := racksNote(t).Held
	a := run(t, "doctor")
	assert.Contains(t, a.Out, "inventory racks: snapshot "+held+" is held: it no longer lists 0 of 3 Nodes, and would remove or change labels on 3 of 3 Nodes that live")
	assert.Contains(t, a.Out, "nodekeep accept rules "+held+"\n", "doctor names the command")
	assert.Contains(t, run(t, "explain", names[0]).RequireDone(t).Out, "snapshot "+held+" is held until nodekeep accept rules")

	a = run(t, "accept", "rules", first.InForce, "--yes")
	assert.Equal(t, 3, a.Code, "a snapshot that is not held is refused: %s", a.Out)
	a = run(t, "accept", "rules", held, "--dry-run")
	require.Equal(t, 0, a.Code, a.ErrOut)
	requireGolden(t, "accept-inventory-dry-run", a.Out)
	a = run(t, "accept", "rules", held)
	assert.NotEqual(t, 0, a.Code, "nobody has answered the question")
	assert.Equal(t, held, racksNote(t).Held)
	assert.Equal(t, "r7 r7 r7", valuesOf(t, rack), "nothing has changed yet")

	a = run(t, "accept", "rules", held, "--yes").RequireDone(t)
	assert.Equal(t, "inventory racks: snapshot "+held+" accepted; capture follows within seconds\n", a.Out)
	allHave(t, rack, "r8")
	harness.Eventually(t, func() bool { return racksNote(t).InForce == held && racksNote(t).Held == "" }, settles, 100*time.Millisecond)
	assert.NotContains(t, run(t, "doctor").Out, "is held")
	a = run(t, "accept", "rules", held, "--yes")
	assert.Equal(t, 3, a.Code, "what was accepted counts once: %s", a.Out)
}
