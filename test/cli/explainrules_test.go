package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

var explainedRules = policytest.Manifest(`labels:
  rules:
  - {name: gpu, when: {devices: {driver: gpu.example.com, min: 2}}, set: {gpu.count: "2"}}
  - {name: team, set: {team: red}}
  - {name: tier, set: {tier: TIER}}
  - {name: later, set: {tier: never}}
  - {name: tried, mode: audit, set: {tried: "yes"}}
  - {name: small, when: {capacity: {cpu: "<=2"}}, set: {size: small}}
  - {name: clean, ensureAbsent: [installer.example.com/left-over]}
`)

// hasTwoDevices has a driver on the Node list two devices.
func hasTwoDevices(t *testing.T, node string) {
	t.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}
	_, err := nodekeep.Kubelet(t, node).ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestExplainAndDiffTellWhatEachRuleSaysAndThatRulesAreHeld(t *testing.T) {
	const name = "explain-rules-1"
	head := strings.ReplaceAll(explainedRules, "TIER", "one")
	defer withPolicy(t, head)()
	nodekeep.MustKubectl(t, "patch", "clusterrole", "nodekeep-capture", "--type=json",
		`-p=[{"op":"add","path":"/rules/-","value":{"apiGroups":["resource.k8s.io"],"resources":["resourceslices"],"verbs":["list","watch"]}}]`)
	inForce(t, rollOut(t, head))
	register(t, name)
	register(t, "explain-rules-2") // rules that change one Node are not held
	hasTwoDevices(t, name)
	label := func(key string) string {
		return nodekeep.MustKubectl(t, "get", "node", name, "-o", "jsonpath={.metadata.labels."+strings.ReplaceAll(key, ".", `\.`)+"}")
	}
	require.Eventually(t, func() bool { return label("gpu.count") == "2" && label("tier") == "one" && label("team") == "red" }, settles, 100*time.Millisecond)
	edit(t, name, map[string]string{"team": "blue"})
	harness.Eventually(t, func() bool { // capture writes the Node after the record
		_, listed := policy.RuleLabelsOf(nodekeep.Node(t, name).Annotations[policy.LabelsAnnotation])["team"]
		return !listed
	}, settles, 100*time.Millisecond)
	requireGolden(t, "explain-rules", run(t, "explain", name).RequireDone(t).Out)
	assert.Equal(t, 0, run(t, "show", name, "--diff").Code)
	nodekeep.WithoutCapture(t, func() {
		nodekeep.MustKubectl(t, "label", "node", name, "tier=by-hand", "gpu.count-", "--overwrite", "--field-manager=kubelet")
		a := run(t, "show", name, "--diff")
		assert.Equal(t, 1, a.Code)
		requireGolden(t, "show-diff-rules", a.Out)
	})
	require.Eventually(t, func() bool { return label("gpu.count") == "2" }, settles, 100*time.Millisecond)
	nodekeep.MustKubectl(t, "label", "node", name, "tier-")
	require.Eventually(t, func() bool { return label("tier") == "one" }, settles, 100*time.Millisecond)

	second := rollOut(t, strings.ReplaceAll(explainedRules, "TIER", "two"))
	held := func() bool { return strings.Contains(run(t, "doctor").Out, "nodekeep accept rules "+second) }
	harness.Eventually(t, held, settles, 100*time.Millisecond)
	var a answer
	harness.Eventually(t, func() bool { // the status of the NodePolicy says it within seconds
		a = run(t, "explain", name).RequireDone(t)
		return strings.Contains(a.Out, "the rules "+second+" only add labels, until nodekeep accept rules "+second)
	}, settles, 100*time.Millisecond)
	requireGolden(t, "explain-rules-held", strings.ReplaceAll(a.Out, second, "<hash>"))
	assert.Equal(t, 0, run(t, "show", name, "--diff").Code, "what is held is no difference")
	assert.Equal(t, "one", label("tier"))
}
