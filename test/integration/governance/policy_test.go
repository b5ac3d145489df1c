package governance

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// eventually waits until the API server says this of labels, as it goes by the policy that was written last. Empty: it allows them.
func eventually(t *testing.T, node string, labels map[string]string, says string) {
	t.Helper()
	admin := member(t, 1)
	message := ""
	harness.Eventually(t, func() bool {
		message = labelling(t, admin, node, labels)
		return strings.Contains(message, says) && (says == "") == (message == "")
	}, harness.Settles, 50*time.Millisecond, "the API server must say %q; it says %v", says, &message)
}

func TestAChangeOfTheNodePolicyActsWithNothingElseApplied(t *testing.T) {
	versions := func() map[string]string {
		all := map[string]string{}
		for _, name := range governance.PolicyNames() {
			policy, err := nodekeep.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			binding, err := nodekeep.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			all[name], all[name+" binding"] = string(policy.UID)+policy.ResourceVersion, string(binding.UID)+binding.ResourceVersion
		}
		return all
	}
	prev := versions()
	nodekeep.Register(t, "changing")
	for _, tt := range []struct{ governance, says string }{
		{"{keys: [{key: tier, values: [gold], mode: deny}]}", "which is not one of gold"},
		{"{keys: [{key: tier, values: [gold, iron], mode: deny}]}", ""},
		{"{keys: [{key: tier, pattern: 'g.*', mode: deny}]}", "which does not match g.*"},
		{"{keys: [{key: tier, pattern: 'g.*', mode: warn}]}", ""},
		{"{keys: [{key: tier, pattern: 'g.*'}], reserved: [ti*]}", ""},
		{"{reserved: [ti*]}", "label tier is reserved"},
		{"{keys: []}", ""},
	} {
		govern(t, policytest.Manifest("governance: "+tt.governance+"\n"))
		eventually(t, "changing", map[string]string{"tier": "iron"}, tt.says)
	}
	assert.Equal(t, prev, versions())
}

// The processes keep to what they accepted last. The API server cannot: it has no other object to read.
func TestWithoutANodePolicyTheAPIServerDeniesNoLabel(t *testing.T) {
	nodekeep.Register(t, "unruled")
	content := policytest.Manifest("governance: {keys: [{key: tier, values: [gold], mode: deny}]}\n")
	govern(t, content)
	eventually(t, "unruled", map[string]string{"tier": "iron"}, "which is not one of gold")
	nodekeep.DeletePolicy(t)
	eventually(t, "unruled", map[string]string{"tier": "iron"}, "")
	nodekeep.SetPolicy(t, content)
	eventually(t, "unruled", map[string]string{"tier": "iron"}, "which is not one of gold")
}

func TestFieldsThatAreNullCountAsAbsent(t *testing.T) {
	nodekeep.Register(t, "null")
	for _, sections := range []string{"governance: null\n", "governance: {keys: null, reserved: null}\n", ""} {
		govern(t, policytest.Manifest(`governance: {reserved: ["x.example/*"]}`))
		eventually(t, "null", map[string]string{"x.example/a": ""}, "is reserved")
		nodekeep.SetPolicy(t, policytest.Manifest(sections))
		eventually(t, "null", map[string]string{"x.example/a": ""}, "")
	}
	govern(t, policytest.Manifest(`governance:
  keys:
  - {key: free, values: null, pattern: null, required: null, immutable: null, requires: null, owners: null, mode: deny}
  - {key: tier, values: [gold], pattern: "", requires: [], owners: [], mode: deny}
  reserved: null
`))
	eventually(t, "null", map[string]string{"free": "x", "tier": "iron"}, "label tier has the value \"iron\", which is not one of gold")
	eventually(t, "null", map[string]string{"free": "x", "tier": "gold"}, "")
}

// The webhook refuses such a policy. An administrator may get it past the webhook.
func TestAnExpressionThatIsNoneEndsOnlyTheRuleOfItsKey(t *testing.T) {
	nodekeep.Register(t, "broken")
	head := nodekeep.Policy(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
	nodekeep.ForcePolicy(t, policytest.Manifest(`governance:
  keys:
  - {key: bad, pattern: "[a", mode: deny}
  - {key: rack, pattern: "r[0-9]+", mode: deny}
  - {key: tier, values: [gold], mode: deny}
  reserved: ["(*", "*.corp.example/*"]
`))
	eventually(t, "broken", map[string]string{"tier": "iron"}, "which is not one of gold")
	eventually(t, "broken", map[string]string{"bad": "x"}, "")
	eventually(t, "broken", map[string]string{"rack": "x"}, "which does not match r[0-9]+")
	eventually(t, "broken", map[string]string{"bad": "x", "rack": "x"}, "does not match its pattern")
	eventually(t, "broken", map[string]string{"bad": "x", "tier": "iron"}, "which is not one of gold")
	eventually(t, "broken", map[string]string{"other": "x"}, "")
	eventually(t, "broken", map[string]string{"a.corp.example/b": ""}, "is reserved")
}

func TestNoPolicyKeepsAKubeletFromRegistering(t *testing.T) {
	all := map[string]string{"tier": "iron", "rack": "x", "a.corp.example/b": "", "owned": "x"}
	head := nodekeep.Policy(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
	nodekeep.Register(t, "reference")
	for name, policy := range map[string]string{
		"all-rules": `governance: {keys: [{key: tier, values: [gold], mode: deny}, {key: rack, pattern: "r[0-9]+", immutable: true, mode: deny},
    {key: owned, owners: ["user:ann"], requires: [else], mode: deny}, {key: needed, required: true, mode: deny}], reserved: ["*.corp.example/*"]}`,
		"no-expression": `governance: {keys: [{key: tier, values: [gold], mode: deny}, {key: rack, pattern: "[a", mode: deny}], reserved: ["(*"]}`,
	} {
		set := nodekeep.SetPolicy
		if name == "no-expression" {
			set = func(t testing.TB, content string, _ ...string) { nodekeep.ForcePolicy(t, content) }
		}
		set(t, policytest.Manifest(policy+"\n"))
		eventually(t, "reference", map[string]string{"tier": "iron"}, "which is not one of gold")
		node := harness.RegistrationWith(name, maps.Clone(all))
		nodekeep.RegisterNode(t, node)
		got := nodekeep.Node(t, name).Labels
		for key, value := range all {
			assert.Equal(t, value, got[key], "%s: %s", name, key)
		}
	}
}
