package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// wrongPolicy has an error in each of five lines.
const wrongPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    keep: ["example.com/*", "a b"]
    onConflict: keepnode
  taints:
    register:
    - taint: example.com/unverified=true
  retention: 30d
  retenton: 720h
`

// wrongRules has one rule for each thing that can be wrong with a rule.
const wrongRules = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - {name: unknown-fact, when: {gpus: 1}, set: {a: "1"}}
    - {name: cycle, when: {labels: b}, set: {b: "1"}}
    - {name: later-key, when: {labels: d}, set: {c: "1"}}
    - {name: later, set: {d: "1"}}
    - {name: regex, when: {names: ["^(db-"]}, set: {e: "1"}}
    - {name: quantity, when: {capacity: {memory: ">=64 gigabytes"}}, set: {f: "1"}}
    - {name: no-label, set: {g: "no label!"}}
    - {name: catalogued, set: {topology.kubernetes.io/zone: z}}
    - {name: protected, when: {capacity: {cpu: ">=8"}}, set: {node-role.kubernetes.io/big: ""}}
    - {name: misspelt, when: {capacity: {memmory: "<1Gi"}}, set: {tier: tiny, free: "{allocatable.pod}"}}
`

func TestPolicyCheckNamesEveryErrorWithItsLineAndNeedsNoCluster(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(wrongPolicy), 0o600))
	a := shell(t, dir, "KUBECONFIG=/nowhere nodekeep check policy.yaml")
	assert.Equal(t, 2, a.Code)
	requireGolden(t, "check-errors", a.Out+a.ErrOut)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(wrongRules), 0o600))
	a = shell(t, dir, "KUBECONFIG=/nowhere nodekeep check rules.yaml")
	assert.Equal(t, 2, a.Code)
	requireGolden(t, "check-rule-errors", a.Out+a.ErrOut)
	a = shell(t, dir, "KUBECONFIG=/nowhere nodekeep check - <policy.yaml")
	assert.Equal(t, 2, a.Code)
	assert.Contains(t, a.Out, "stdin:")
}

func TestPolicyCheckNamesRulesThatCanNeverActAndNeedsNoCluster(t *testing.T) {
	file := policyFile(t, `labels: {rules: [
  {name: big, when: {labels: kubernetes.io/arch=amd46}, set: {tier: big}},
  {name: rest, set: {tier: standard}},
  {name: gpu, when: {capacity: {nvidia.com/gpu: ">=1"}}, set: {tier: gpu}}]}`)
	a := shell(t, filepath.Dir(file), "KUBECONFIG=/nowhere nodekeep check policy.yaml")
	assert.Equal(t, 0, a.Code, "they are warnings: %s", a.ErrOut)
	requireGolden(t, "check-rule-warnings", a.Out+a.ErrOut)
}

func TestPolicyCheckNamesWhatRulesAskForAndNoNodeHas(t *testing.T) {
	register(t, "asked-1")
	file := policyFile(t, `labels: {rules: [
  {name: gpu, when: {names: [asked-1], capacity: {asked.example.com/gpu: ">=1"}}, set: {asked: gpu}},
  {name: old, when: {names: [asked-1], labels: kubernetes.io/arch=mips64}, set: {asked: old}},
  {name: known, when: {names: [asked-1], labels: kubernetes.io/os=linux}, set: {asked: linux}}]}`)
	reports := []byte(`{"status":{"capacity":{"cpu":"4"},"nodeInfo":{"architecture":"amd64","operatingSystem":"linux"}}}`)
	_, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), "asked-1", types.MergePatchType, reports, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	a := shell(t, filepath.Dir(file), "nodekeep check policy.yaml --against-cluster -o jsonpath='{range .impact.missing[*]}{.fact}{\"\\t\"}{.rules}{\"\\n\"}{end}'")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Equal(t, "capacity.asked.example.com/gpu\t[\"gpu\"]\nkubernetes.io/arch=mips64\t[\"old\"]\n", a.Out)
	a = shell(t, filepath.Dir(file), "nodekeep check policy.yaml --against-cluster")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Contains(t, a.Out, "rule gpu asks for capacity.asked.example.com/gpu, which ")
	assert.Contains(t, a.Out, "kubectl get nodes -L kubernetes.io/arch,kubernetes.io/os")
}

func TestPolicyCheckCountsWhatAPolicyWouldChangeInTheClusterAndChangesNothing(t *testing.T) {
	loseEverything(t) // it counts every Node
	for _, name := range []string{"policy-1", "policy-2", "policy-3"} {
		register(t, name)
		edit(t, name, map[string]string{"dedicated": "ci", "rack": "r1", worker: ""})
	}
	remove(t, "policy-3")
	prev := *recordOf(t, "policy-1")
	file := policyFile(t, "labels: {ignore: [rack], protected: never}\ntaints: {rules: [{selector: dedicated, taint: \"dedicated={value}:NoSchedule\"}]}")

	a := shell(t, filepath.Dir(file), "nodekeep check policy.yaml --against-cluster -o wide")
	require.Equal(t, 0, a.Code, a.ErrOut)
	requireGolden(t, "check-impact", a.Out)
	a = shell(t, filepath.Dir(file), "nodekeep check policy.yaml --against-cluster -n default") // as before anything is installed
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Contains(t, a.ErrOut, "nodekeep is not installed there")
	requireGolden(t, "check-before-installation", a.Out)
	assert.Equal(t, prev, *recordOf(t, "policy-1"))
	assert.NotContains(t, nodekeep.MustKubectl(t, "get", "node", "policy-1", "-o", "jsonpath={.spec.taints[*].key}"), "dedicated")

	var check struct {
		Kind   string
		Valid  bool
		Impact struct {
			Nodes, Gone int
			Changes     []struct {
				Change, Item string
				Nodes        int
			}
		}
	}
	answerJSON(t, &check, "check", file, "--against-cluster")
	assert.Equal(t, "PolicyCheck", check.Kind)
	assert.True(t, check.Valid)
	assert.Equal(t, []int{2, 1}, []int{check.Impact.Nodes, check.Impact.Gone})
	found := map[string]int{}
	for _, change := range check.Impact.Changes {
		found[change.Change+" "+change.Item] = change.Nodes
	}
	assert.Equal(t, 2, found["dropped rack"], "of the two Nodes that are there: %v", found)
	assert.Equal(t, 2, found["taintAdded dedicated=ci:NoSchedule"], "%v", found)
}

func TestPolicyCheckShowsGovernanceThatMovesFromOneKeyToAnother(t *testing.T) {
	loseEverything(t) // it counts every Node
	register(t, "moves-1")
	edit(t, "moves-1", map[string]string{"tier": "gold"})
	const governs = "governance: {keys: [{key: %s, values: [silver], mode: deny}], reserved: [x.example/*]}"
	defer goesBy(t, policytest.Manifest(fmt.Sprintf(governs, "owner")))()
	file := policyFile(t, fmt.Sprintf(governs, "tier"))
	a := shell(t, filepath.Dir(file), "nodekeep check policy.yaml --against-cluster")
	require.Equal(t, 0, a.Code, a.ErrOut)
	requireGolden(t, "check-governance", a.Out)
	match := policyFile(t, "governance: {reserved: [x.example/*], keys: [{mode: deny, values: [silver], key: owner, required: false}]}")
	a = shell(t, filepath.Dir(match), "nodekeep check policy.yaml --against-cluster")
	assert.Regexp(t, `(?m)^Changes: +none$`, a.Out)
}
