package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// judged is what `check --against-cluster -o json` prints of what is kept.
type judged struct {
	Impact struct {
		Kept, NotKept []struct {
			Item, Why, Example string
			Keys, Managers     []string
			Unexpected         bool
			Nodes              int
		}
	}
}

// An operator's zone is restored. managedFields may show no manager of it then, so only the record shows whose it is.
func TestARestoredLabelWithoutAManagerIsKeptForDoctorExplainAndPolicyCheckAlike(t *testing.T) {
	loseEverything(t) // check and doctor go through every Node
	const name, zone = "kept-1", "failure-domain.beta.kubernetes.io/zone"
	register(t, name)
	edit(t, name, map[string]string{zone: "room-9"})
	remove(t, name)
	register(t, name)
	eventuallyHas(t, name, zone)
	file := policyFile(t, "retention: 720h")
	alike := func(t *testing.T, reason string) {
		t.Helper()
		for _, item := range explanation(t, name).Items {
			if item.Item == zone {
				assert.True(t, item.Kept)
				assert.Equal(t, reason, item.Why)
			}
		}
		var check judged
		answerJSON(t, &check, "check", file, "--against-cluster")
		require.Len(t, check.Impact.Kept, 1)
		assert.Equal(t, zone, check.Impact.Kept[0].Item)
		assert.Equal(t, []string{"kubectl-label"}, check.Impact.Kept[0].Managers)
		doctor := run(t, "doctor").Out
		assert.Contains(t, doctor, "not kept (it belongs to the kubelet)")
		assert.NotContains(t, doctor, zone)
	}
	alike(t, "managedFields show only kubectl-label, a client of operators; restored: the record has it")

	nodekeep.MustKubectl(t, "patch", "node", name, "--type=json", "-p", `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`)
	require.Empty(t, nodekeep.Node(t, name).ManagedFields)
	alike(t, "the record has it as an operator's; set by kubectl-label")
}

func TestPolicyCheckShowsWhatIsKeptAndFirstWhatNoOperatorSet(t *testing.T) {
	loseEverything(t) // it counts every Node
	label := func(node, manager string, labels ...string) {
		t.Helper()
		nodekeep.MustKubectl(t, append([]string{"label", "node", node, "--field-manager=" + manager}, labels...)...)
	}
	for _, node := range []string{"kept-2", "kept-3"} {
		register(t, node)
		label(node, "aws-cloud-controller-manager", "topology.kubernetes.io/region=eu-west-1", "node.kubernetes.io/instance-type=m5.large")
		label(node, "kubectl-label", "dedicated=ci", "example.com/team=blue")
	}
	var vendor, virt []string
	for i := range 90 {
		vendor = append(vendor, fmt.Sprintf("gpu.vendor.example/feature-%02d=true", i))
	}
	for i := range 5 {
		virt = append(virt, fmt.Sprintf("cpu-feature.node.kubevirt.io/%d=true", i), fmt.Sprintf("cpu-model.node.kubevirt.io/%d=true", i))
	}
	label("kept-2", "vendor-agent", vendor...)
	label("kept-2", "virt-handler", virt...)
	nodekeep.MustKubectl(t, "taint", "node", "kept-2", "tenant=blue:NoSchedule")
	eventually(t, "kept-2", func(r record.Record) bool {
		return harness.HasAll(r.Items(), map[string]string{"gpu.vendor.example/feature-89": "true", "tenant:NoSchedule": "blue"})
	})
	file := policyFile(t, "retention: 720h")

	a := shell(t, filepath.Dir(file), "nodekeep check policy.yaml --against-cluster")
	requireGolden(t, "check-kept", a.RequireDone(t).Out)
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "operating.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## What would be kept\n")
	_, documented, _ := strings.Cut(section, "$ nodekeep check policy.yaml --against-cluster\n")
	documented, _, _ = strings.Cut(documented, "```")
	require.Contains(t, documented, "vendor-agent")
	for line := range strings.Lines(documented) {
		if line != "...\n" {
			assert.Contains(t, a.Out, line, "docs/operating.md")
		}
	}

	var check judged
	answerJSON(t, &check, "check", file, "--against-cluster")
	first := check.Impact.Kept[0]
	assert.Equal(t, []any{"gpu.vendor.example/*", []string{"vendor-agent"}, true, 1}, []any{first.Item, first.Managers, first.Unexpected, first.Nodes})
	require.Len(t, first.Keys, 90)
	assert.Equal(t, []string{"gpu.vendor.example/feature-00", "gpu.vendor.example/feature-00=true"}, []string{first.Keys[0], first.Example})

	for _, item := range explanation(t, "kept-2").Items {
		if strings.HasPrefix(item.Item, "gpu.vendor.example/") {
			assert.Equal(t, "labels.keep has *; set by vendor-agent, not a known client of operators", item.Why)
		}
	}
}
