package nodepolicy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// profile returns a profile that needs these further fields.
func profile(fields string) string {
	return "verify: {profiles: [{name: a, " + fields + "}]}"
}

// wrong has a policy for each kind of error, and what kubectl's answer must say, the path first.
var wrong = map[string]struct{ sections, path string }{
	// What the schema refuses.
	"an unknown section":                         {"lables: {keep: [a]}", "spec.lables"},
	"an unknown field":                           {"labels: {kep: [a]}", "spec.labels.kep"},
	"an unknown field of a rule":                 {"labels: {rules: [{name: a, sett: {a: b}, set: {a: b}}]}", "spec.labels.rules[0].sett"},
	"a list that is a string":                    {"labels: {keep: a}", "spec.labels.keep"},
	"a string that is a number":                  {"labels: {keep: [5]}", "spec.labels.keep[0]"},
	"a truth that is a string":                   {"machine: {follow: \"yes\"}", "spec.machine.follow"},
	"a value that is not one of a few":           {"labels: {protected: always}", "spec.labels.protected"},
	"an empty pattern":                           {"labels: {ignore: [\"\"]}", "spec.labels.ignore[0]"},
	"a cordon that is none":                      {"cordon: keeps", "spec.cordon"},
	"a mismatch that is none":                    {"machine: {onMismatch: refuse}", "spec.machine.onMismatch"},
	"a retention without a unit":                 {"retention: \"720\"", "spec.retention"},
	"a retention that is a number":               {"retention: 720", "spec.retention"},
	"a taint with an effect that is none":        {"taints: {register: [{taint: \"a=b:NoSchedul\"}]}", "spec.taints.register[0].taint"},
	"a rule for taints without a selector":       {"taints: {rules: [{taint: \"a:NoSchedule\"}]}", "spec.taints.rules[0].selector"},
	"a rule without a name":                      {"labels: {rules: [{set: {a: b}}]}", "spec.labels.rules[0].name"},
	"a rule that sets nothing":                   {"labels: {rules: [{name: a}]}", "spec.labels.rules[0]"},
	"a rule with a hold that is no duration":     {"labels: {rules: [{name: a, hold: soon, set: {a: b}}]}", "spec.labels.rules[0].hold"},
	"a rule that counts no device":               {"labels: {rules: [{name: a, when: {devices: {driver: d, min: 0}}, set: {a: b}}]}", "spec.labels.rules[0].when.devices.min"},
	"a rename without a phase":                   {"labels: {migrations: [{from: a, to: b}]}", "spec.labels.migrations[0].phase"},
	"an inventory from two places":               {"inventory: [{name: a, file: /var/run/nodekeep/a, configMap: a, attributes: [rack]}]", "spec.inventory[0]"},
	"an inventory by plain http":                 {"inventory: [{name: a, url: \"http://a.example.com\", attributes: [rack]}]", "spec.inventory[0].url"},
	"an inventory with the token of the process": {"inventory: [{name: a, url: \"https://a.example.com\", attributes: [rack], auth: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]", "spec.inventory[0].auth.tokenFile"},
	"an inventory without attributes":            {"inventory: [{name: a, configMap: a}]", "spec.inventory[0].attributes"},
	"a governed key with values and a pattern":   {"governance: {keys: [{key: a, values: [b], pattern: b}]}", "spec.governance.keys[0]"},
	"an owner that is none":                      {"governance: {keys: [{key: a, owners: [alice]}]}", "spec.governance.keys[0].owners[0]"},
	"a check of two kinds":                       {profile("checks: [{name: a, api: {}, kubelet: {}}]"), "spec.verify.profiles[0].checks[0]"},
	"a word that is not the entry auto":          {profile("wait: {daemonSets: [\"autos\"]}"), "spec.verify.profiles[0].wait.daemonSets[0]"},
	"some DaemonSets of a namespace":             {profile("wait: {daemonSets: [\"a/b*\"]}"), "spec.verify.profiles[0].wait.daemonSets[0]"},
	"a number of removals that is none":          {"verify: {limits: {deletionsPerHour: -1}}", "spec.verify.limits.deletionsPerHour"},
	"a mode that is none":                        {profile("mode: observe, checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].mode"},
	"a check again that is no duration":          {profile("mode: report, every: daily, checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].every"},
	"a quantity that is none":                    {profile("wait: {allocatable: {memory: 64GB}}, checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].wait.allocatable"},
	// What the webhook refuses.
	"a pattern that matches no key":          {"labels: {keep: [a b]}", "spec.labels.keep[0]"},
	"a retention that forgets restarts":      {"retention: 1m", "spec.retention"},
	"an expression that is none":             {"labels: {rules: [{name: a, when: {names: [\"^(db-\"]}, set: {a: b}}]}", "spec.labels.rules[0].when.names[0]"},
	"a comparison with what is no quantity":  {"labels: {rules: [{name: a, when: {capacity: {memory: \">=64GB\"}}, set: {a: b}}]}", "spec.labels.rules[0].when.capacity[memory]"},
	"a resource that is misspelt":            {"labels: {rules: [{name: a, when: {capacity: {memmory: \"<1Gi\"}}, set: {a: b}}]}", "spec.labels.rules[0].when.capacity[memmory]"},
	"a misspelt resource in a value":         {"labels: {rules: [{name: a, set: {a: \"{capacity.memmory}\"}}]}", "spec.labels.rules[0].set[a]"},
	"a misspelt resource of a profile":       {profile("wait: {allocatable: {memmory: 64Gi}}, checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].wait.allocatable[memmory]"},
	"a selector that is none":                {"taints: {rules: [{selector: a b, taint: \"a:NoSchedule\"}]}", "spec.taints.rules[0].selector"},
	"a label value that is too long":         {"labels: {rules: [{name: a, set: {a: " + strings.Repeat("x", 64) + "}}]}", "spec.labels.rules[0].set[a]"},
	"a label of another component":           {"labels: {rules: [{name: a, set: {topology.kubernetes.io/zone: z}}]}", "spec.labels.rules[0].set[topology.kubernetes.io/zone]"},
	"two rules of one name":                  {"labels: {rules: [{name: a, set: {a: b}}, {name: a, set: {c: d}}]}", "spec.labels.rules[1].name"},
	"a rule that makes the gate":             {"taints: {rules: [{selector: a, taint: \"nodekeep.dev/restoring:NoSchedule\"}]}", "spec.taints.rules[0].taint"},
	"two taints of one selector":             {"taints: {register: [{taint: \"a=1:NoSchedule\"}, {taint: \"a=2:NoSchedule\"}]}", "spec.taints.register[1].taint"},
	"an annotation of another component":     {"annotations: [volumes.kubernetes.io/controller-managed-attach-detach]", "spec.annotations[0]"},
	"a rename of a label that is not kept":   {"labels: {ignore: [a], migrations: [{from: a, to: b, phase: both}]}", "spec.labels.migrations[0].from"},
	"a rule about an inventory that is none": {"labels: {rules: [{name: a, set: {a: \"{inventory.cmdb.rack}\"}}]}", "spec.labels.rules[0].set[a]"},
	"a rule against governance":              {"labels: {rules: [{name: a, set: {tier: gold}}]}\ngovernance: {keys: [{key: tier, values: [silver], mode: deny}]}", "spec.labels.rules[0].set[tier]"},
	"an address that is to be resolved":      {profile("checks: [{name: a, dns: {names: [8.8.8.8]}}]"), "spec.verify.profiles[0].checks[0].dns.names[0]"},
	"a profile that asks and awaits nothing": {"verify: {profiles: [{name: a}]}", "spec.verify.profiles[0].checks"},
	"a removal after no check":               {profile("onFailure: node, wait: {daemonSets: [a/b]}"), "spec.verify.profiles[0].onFailure"},
	"a report with a taint":                  {profile("mode: report, taint: \"a:NoSchedule\", checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].taint"},
	"a check again that no one asked for":    {profile("every: 1h, checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].every"},
	"a report too often":                     {profile("mode: report, every: 1s, checks: [{name: a, api: {}}]"), "spec.verify.profiles[0].every"},
	"two profiles of one name":               {"verify: {profiles: [{name: a, checks: [{name: api, api: {}}]}, {name: a, checks: [{name: api, api: {}}]}]}", "spec.verify.profiles[1].name"},
}

// untilRefused waits until the API server asks the webhook about policies.
func untilRefused(t *testing.T) {
	t.Helper()
	file := written(t, policytest.Manifest("labels: {keep: [a b]}"))
	var out string
	require.Eventually(t, func() bool {
		var err error
		out, err = nodekeep.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file)
		return err != nil && strings.Contains(out, "policy.nodekeep.dev")
	}, harness.Settles, poll, "the API server must ask the webhook: %s", &out)
}

// refused applies a policy as operators do, which must not be stored, and returns what kubectl says.
func refused(t *testing.T, manifest string) string {
	t.Helper()
	head := nodekeep.Policy(t)
	out, err := nodekeep.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-f", written(t, manifest))
	require.Error(t, err, "it must be refused: %s", out)
	assert.Equal(t, head, nodekeep.Policy(t))
	return out
}

func TestAnApplyOfAPolicyThatIsWrongIsRefusedWithThePathOfTheError(t *testing.T) {
	untilRefused(t)
	require.GreaterOrEqual(t, len(wrong), 40)
	for name, c := range wrong {
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, refused(t, policytest.Manifest(c.sections)), c.path)
		})
	}
	t.Run("all errors at once", func(t *testing.T) {
		out := refused(t, policytest.Manifest("labels: {keep: [a b]}\nretention: 1m"))
		for _, path := range []string{"spec.labels.keep[0]", "spec.retention"} {
			assert.Contains(t, out, path)
		}
	})
}

func TestAnApplyOfEachSharedPolicyIsRefused(t *testing.T) {
	dir := filepath.Join(harness.Root(), "..", "shared", "policies", "bad")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("there are no files in %s", dir)
	}
	untilRefused(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out := refused(t, sharedPolicy(t, file))
			assert.Contains(t, out, "spec.", "the path")
			t.Log(out)
		})
	}
}

// sharedPolicy returns the manifest of a file, which may have a policy as policies were once written.
func sharedPolicy(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	if sections, found := strings.CutPrefix(string(content), "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\n"); found {
		return policytest.Manifest(sections)
	}
	return string(content)
}
