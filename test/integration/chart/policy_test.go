package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

const policyKind = "crd/nodepolicies.nodekeep.dev"

// withoutPolicies deletes the kind NodePolicy with its object, which releases leave.
func withoutPolicies(t *testing.T) {
	t.Helper()
	out, err := kubectl(context.WithoutCancel(t.Context()), "delete", "--ignore-not-found", "--wait", policyKind)
	require.NoError(t, err, out)
}

// withPolicies applies the kind NodePolicy for a test.
func withPolicies(t *testing.T) {
	t.Helper()
	withoutPolicies(t)
	t.Cleanup(func() { withoutPolicies(t) })
	out, err := kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(harness.Manifests(), "crd.yaml"))
	require.NoError(t, err, out)
	out, err = kubectl(t.Context(), "wait", "--for=condition=Established", policyKind)
	require.NoError(t, err, out)
}

// applyPolicy applies a manifest as an operator does.
func applyPolicy(t *testing.T, manifest string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifest), 0o600))
	return kubectl(t.Context(), "apply", "--server-side", "-f", file)
}

// The webhook says the same and more, and it may be down.
func TestTheAPIServerItselfRefusesWhatIsMisspeltOrCannotBe(t *testing.T) {
	withPolicies(t)
	profile := func(fields string) string {
		return "verify: {profiles: [{name: a, " + fields + "}]}"
	}
	for sections, says := range map[string]string{
		"lables: {keep: [a]}":                                           ".spec.lables: field not declared in schema",
		"labels: {rules: [{nam: a, set: {a: b}}]}":                      ".spec.labels.rules[0].nam: field not declared in schema",
		"labels: {rules: [{name: a, when: {cpu: 1}, set: {a: b}}]}":     ".spec.labels.rules[0].when.cpu: field not declared in schema",
		"labels: {rules: [{set: {a: b}}]}":                              "spec.labels.rules[0].name: Required value",
		"labels: {rules: [{name: a}]}":                                  "spec.labels.rules[0]: Invalid value: a rule sets at least one label, or removes one: ensureAbsent",
		"labels: {rules: [{name: a, set: {a: b}, hold: soon}]}":         "spec.labels.rules[0].hold: Invalid value",
		"labels: {keep: [1]}":                                           ".spec.labels.keep[0]: expected string",
		"labels: {onConflict: keep}":                                    "spec.labels.onConflict: Unsupported value",
		"labels: {migrations: [{from: a, to: b, phase: old}]}":          "spec.labels.migrations[0].phase: Unsupported value",
		`taints: {register: [{taint: "a:Never"}]}`:                      "spec.taints.register[0].taint: Invalid value",
		`taints: {rules: [{taint: "a:NoSchedule"}]}`:                    "spec.taints.rules[0].selector: Required value",
		"retention: 30d":                                                "spec.retention: Invalid value",
		"retention: 30":                                                 "spec.retention: Invalid value: 30: must be a duration",
		"machine: {onMismatch: refuse}":                                 "spec.machine.onMismatch: Unsupported value",
		profile("checks: [{name: a}]"):                                  "spec.verify.profiles[0].checks[0]: Invalid value: exactly one of the fields",
		profile("checks: [{name: a, api: {}, kubelet: {}}]"):            "spec.verify.profiles[0].checks[0]: Invalid value: exactly one of the fields",
		profile("checks: [{name: a, service: {name: a, port: 1}}]"):     "spec.verify.profiles[0].checks[0].service.name: Invalid value",
		"verify: {limits: {stopAbove: 101%}}":                           "spec.verify.limits.stopAbove: Invalid value",
		"verify: {limits: {stopAbove: -1}}":                             "spec.verify.limits.stopAbove: Invalid value: -1: must not be negative",
		"verify: {limits: {deletionsPerHour: -1}}":                      "spec.verify.limits.deletionsPerHour: Invalid value",
		"governance: {keys: [{values: [a]}]}":                           "spec.governance.keys[0].key: Required value",
		"governance: {keys: [{key: a, values: [b], pattern: c}]}":       "spec.governance.keys[0]: Invalid value: must have values or a pattern, not both",
		"governance: {keys: [{key: a, owners: [me]}]}":                  "spec.governance.keys[0].owners[0]: Invalid value",
		"inventory: [{name: a, attributes: [rack]}]":                    "spec.inventory[0]: Invalid value: must have exactly one of url, file and configMap",
		"inventory: [{name: a, configMap: b}]":                          "spec.inventory[0].attributes: Required value",
		"inventory: [{name: a, url: \"http://a\", attributes: [rack]}]": "spec.inventory[0].url: Invalid value",
	} {
		t.Run(sections, func(t *testing.T) {
			out, err := applyPolicy(t, policytest.Manifest(sections))
			require.Error(t, err, out)
			assert.Contains(t, out, says)
		})
	}
	out, err := applyPolicy(t, strings.Replace(policytest.Manifest("cordon: keep"), "default", "second", 1))
	require.Error(t, err, out)
	assert.Contains(t, out, "there is one NodePolicy, and its name is default")
}

// What the schema refuses, no policy of the documentation or of other tests may say.
func TestTheAPIServerTakesEveryFieldOfAPolicy(t *testing.T) {
	withPolicies(t)
	for name, sections := range map[string]string{
		"nothing":        "",
		"empty sections": "labels: {}\ntaints: {}\nannotations: []\nmachine: {}\nverify: {}\ngovernance: {}\ninventory: []",
		"for ever":       "retention: 0",
		"a full one": `labels: {keep: ["*"], ignore: [a], defer: [b], ignoreManagers: ["k3s*"], onConflict: restoreStored, protected: inline,
    rules: [{name: a, when: {names: ["^a"], capacity: {memory: ">=64Gi"}, kernel: ">=6.1", kubelet: ">=1.35",
      providerID: "aws*", labels: "a=b", devices: {driver: gpu.example.com, attributes: {model: "*"}, min: 2}, inventory: {cmdb.rack: "*"}, features: {cpu.cpuid.AVX: "*", Resize: "true"}, any: [{labels: "c in (d)"}]},
      set: {a: "{name.x}{labels.z}{devices.model}"}, values: {B 1: b}, hold: 15m, precedence: rule, mode: audit, trust: kubelet}, {name: b, ensureAbsent: [c, "d:NoSchedule"]}],
    migrations: [{from: a, to: example.com/b, phase: both, trust: kubelet}]}
taints: {keep: [], ignore: [a], register: [{taint: "a=b:NoExecute", nodeSelector: "a!=b"}], rules: [{selector: a, taint: "a={value}:PreferNoSchedule"}]}
annotations: [metal3.io/BareMetalHost]
cordon: keep
machine: {onMismatch: quarantine, follow: true}
retention: 1h30m
verify: {label: example.com/ok, limits: {stopAbove: 3, deletionsPerHour: 50},
  profiles: [{name: a, nodeSelector: "a=b", taint: "example.com/new=a:NoExecute", timeout: 1m, startTimeout: 1m, deadline: 1h, onTimeout: release, reverify: onReboot, onFailure: node, attempts: {max: 1, backoff: 1s, maxBackoff: 1m},
    wait: {conditions: {Ready: "True"}, daemonSets: [kube-system/cni, "storage/*", auto], allocatable: {cpu: 1, memory: 64Gi}},
    checks: [{name: a, dns: {names: [a.], servers: each}}, {name: b, api: {}}, {name: c, required: false, service: {name: a/b, port: 1, endpoints: 0}}, {name: d, tcp: "a:1"},
      {name: e, http: {url: "https://a", status: 204, ca: x}}, {name: f, container: {image: a, command: [b], args: [""], limits: {cpu: 500m}, env: {A: b, C: ""}, runtimeClassName: kata}}, {name: g, timeout: 5s, kubelet: {}}]}]}
governance: {keys: [{key: a, values: ["", c], required: true, immutable: true, requires: [d], owners: ["user:a", "group:b*", "serviceaccount:a/*"], mode: deny}, {key: e, pattern: "a+"}], reserved: ["*.example.com/*"], noncompliant: {taint: "a:NoSchedule", after: 1h}}
inventory: [{name: a, url: "https://a/b", interval: 5m, auth: {tokenFile: /var/run/nodekeep/a/token}, ca: /var/run/nodekeep/a/ca.crt, attributes: [rack], staleAfter: 24h, preload: true}, {name: b, file: /var/run/nodekeep/b, attributes: [a]}, {name: c, configMap: d, attributes: [a]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := kubectl(t.Context(), "delete", "--ignore-not-found", "nodepolicy", "default")
			require.NoError(t, err, out)
			out, err = applyPolicy(t, policytest.Manifest(sections))
			require.NoError(t, err, out)
			out, err = kubectl(t.Context(), "get", "nodepolicy", "default", "-o", "json")
			require.NoError(t, err, out)
			var stored struct{ Spec any }
			require.NoError(t, json.Unmarshal([]byte(out), &stored))
			var got struct{ Spec any }
			require.NoError(t, yaml.Unmarshal([]byte(policytest.Manifest(sections)), &got))
			assert.Equal(t, got.Spec, stored.Spec, "nothing is left out, and nothing is added")
		})
	}
}

// Server-side apply writes null where it removes the last field of a section.
func TestAPolicyCanBeAppliedAgainWithLess(t *testing.T) {
	withPolicies(t)
	for _, sections := range []string{"verify: {label: a, limits: {stopAbove: 1}}\ncordon: keep", "verify: {label: a, limits: {}}\ncordon: keep", "verify: {}\ncordon: keep", "{}"} {
		out, err := applyPolicy(t, policytest.Manifest(sections))
		require.NoError(t, err, "%s: %s", sections, out)
		out, err = kubectl(t.Context(), "get", "nodepolicy", "default", "-o", "json")
		require.NoError(t, err, out)
		_, err = policy.LoadObject([]byte(out), policy.DefaultGate)
		require.NoError(t, err, out)
	}
}

func TestHelmBringsThePolicyAndItsKindAndKeepsBoth(t *testing.T) {
	for name, serverSide := range map[string]string{"by server-side apply": "true", "by patches of the client": "false"} {
		t.Run(name, func(t *testing.T) {
			withoutPolicies(t)
			t.Cleanup(func() { withoutPolicies(t) })
			r := release{namespace: "policy-" + serverSide, serverSide: serverSide}
			values := set("policy.cordon=keep")
			r.helm(t, append([]string{"install", "nodekeep", older(t), "--create-namespace", "--server-side=" + serverSide}, values...)...)
			uid := r.policyField(t, "{.metadata.uid}")
			assert.JSONEq(t, `{"cordon":"keep"}`, r.policyField(t, "{.spec}"))
			retention := `{"spec": {"labels": {"ignore": ["a"]}, "retention": "1h"}}`
			patch := func(merge string) {
				out, err := kubectl(t.Context(), "patch", "nodepolicy", "default", "--type=merge", "--field-manager=kubectl-edit", "-p", merge)
				require.NoError(t, err, out)
			}
			patch(retention)
			assert.JSONEq(t, `{"cordon":"keep","labels":{"ignore":["a"]}}`, r.policyField(t, "{.spec}"), "the older kind lacks the field")

			r.upgrade(t, values...)
			assert.Equal(t, uid, r.policyField(t, "{.metadata.uid}"), "the release takes the object over as it is")
			assert.JSONEq(t, `{"cordon":"keep","labels":{"ignore":["a"]}}`, r.policyField(t, "{.spec}"), "an edit stays")
			patch(retention)
			all := `{"cordon":"keep","labels":{"ignore":["a"]},"retention":"1h"}`
			assert.JSONEq(t, all, r.policyField(t, "{.spec}"), "the kind has the new field")
			extra, combined := set("policy.cordon=keep", "policy.machine.follow=true"), `{"cordon":"keep","labels":{"ignore":["a"]},"machine":{"follow":true},"retention":"1h"}`
			r.upgrade(t, extra...)
			assert.JSONEq(t, combined, r.policyField(t, "{.spec}"), "a value is added to an edit")
			r.upgrade(t)
			assert.JSONEq(t, combined, r.policyField(t, "{.spec}"), "without a value, the release leaves the policy as it is")
			r.upgrade(t, extra...) // as it is: without server-side apply, Helm changes no field of an object that it takes over
			r.upgrade(t, values...)
			assert.Equal(t, uid, r.policyField(t, "{.metadata.uid}"))
			assert.NotContains(t, r.policyField(t, "{.spec}"), "follow", "a value that is removed is the default again")

			r.helm(t, "uninstall", "nodekeep", "--no-hooks")
			assert.Equal(t, uid, r.policyField(t, "{.metadata.uid}"))
			head := r.policyField(t, "{.spec}")
			r.helm(t, append([]string{"install", "nodekeep", harness.Chart(), "--server-side=" + serverSide}, values...)...)
			assert.Equal(t, uid, r.policyField(t, "{.metadata.uid}"))
			assert.JSONEq(t, head, r.policyField(t, "{.spec}"), "the next installation begins with the policy that was")
			r.helm(t, "uninstall", "nodekeep", "--no-hooks")
		})
	}
}

func TestTheStaticFilesBringANewerKindAndKeepThePolicy(t *testing.T) {
	withoutPolicies(t)
	t.Cleanup(func() { withoutPolicies(t) })
	r := release{namespace: "policy-static"}
	apply := func(files ...string) {
		for _, file := range files {
			out, err := kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-f", file)
			require.NoError(t, err, out)
		}
		out, err := kubectl(t.Context(), "wait", "--for=condition=Established", policyKind)
		require.NoError(t, err, out)
	}
	retention := policytest.Manifest("cordon: keep\nretention: 1h")
	apply(filepath.Join(older(t), "crd.yaml"))
	out, err := applyPolicy(t, retention)
	require.Error(t, err, "the older kind lacks the field: %s", out)
	out, err = applyPolicy(t, policytest.Manifest("cordon: keep"))
	require.NoError(t, err, out)
	uid := r.policyField(t, "{.metadata.uid}")

	static := func(name string) string { return filepath.Join(harness.Manifests(), name) }
	apply(static("crd.yaml"), static("namespace.yaml"), static("nodekeep.yaml"))
	assert.JSONEq(t, `{"cordon":"keep"}`, r.policyField(t, "{.spec}"), "an upgrade leaves the policy as it is")
	out, err = applyPolicy(t, retention)
	require.NoError(t, err, out)

	out, err = kubectl(t.Context(), "delete", "--ignore-not-found", "-f", static("nodekeep.yaml"))
	require.NoError(t, err, out)
	assert.Equal(t, uid, r.policyField(t, "{.metadata.uid}"), "the deletion of nodekeep.yaml leaves it, too")
	assert.JSONEq(t, `{"cordon":"keep","retention":"1h"}`, r.policyField(t, "{.spec}"))
}

// policyField returns a part of the NodePolicy.
func (r release) policyField(t *testing.T, path string) string {
	t.Helper()
	out, err := kubectl(t.Context(), "get", "nodepolicy", "default", "-o", "jsonpath="+path)
	require.NoError(t, err, out)
	return out
}

// older returns the chart of a version whose policy had no retention.
func older(t *testing.T) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "chart")
	require.NoError(t, os.CopyFS(chart, os.DirFS(harness.Chart())))
	file := filepath.Join(chart, "crd.yaml")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(content), "              retention:\n")
	require.True(t, found)
	_, tail, found := strings.Cut(rest, "              taints:\n")
	require.True(t, found)
	require.NoError(t, os.WriteFile(file, []byte(head+"              taints:\n"+tail), 0o600))
	return chart
}

func TestWhoMayReadAndWriteThePolicy(t *testing.T) {
	withoutPolicies(t)
	t.Cleanup(func() { withoutPolicies(t) })
	r := release{namespace: "policy-roles", serverSide: "true"}
	r.helm(t, append([]string{"install", "nodekeep", harness.Chart(), "--create-namespace"}, profiles(oneProfile, "verify.checksNamespace=policy-roles-checks")...)...)
	defer r.helm(t, "uninstall", "nodekeep", "--no-hooks")
	for _, role := range []string{"nodekeep-policy-editor", "nodekeep-policy-viewer", "nodekeep-viewer", "nodekeep-operator"} {
		out, err := kubectl(t.Context(), "create", "clusterrolebinding", role+"-test", "--clusterrole", role, "--user", role)
		require.NoError(t, err, out)
		defer func() {
			_, _ = kubectl(context.WithoutCancel(t.Context()), "delete", "clusterrolebinding", role+"-test")
		}()
	}
	reads, writes := []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}
	account := func(name string) string { return fmt.Sprintf("system:serviceaccount:%s:%s", r.namespace, name) }
	allowed := func(user string, verbs []string, want string) {
		for _, verb := range verbs {
			out, _ := kubectl(t.Context(), "auth", "can-i", verb, "nodepolicies.nodekeep.dev", "--as", user, "--quiet=false", "--warnings-as-errors=false")
			assert.Contains(t, out, want+"\n", "%s %s", user, verb)
		}
	}
	for user, writer := range map[string]bool{
		"nodekeep-policy-editor": true, "nodekeep-policy-viewer": false, "nodekeep-viewer": false, "nodekeep-operator": false,
		account("nodekeep-capture"): false, account("nodekeep-webhook"): false, account("nodekeep-verify"): false,
	} {
		allowed(user, reads, "yes")
		allowed(user, writes, map[bool]string{true: "yes", false: "no"}[writer])
	}
	allowed("anyone-else", append(reads, writes...), "no")
	for _, name := range []string{"nodekeep-capture", "nodekeep-webhook", "nodekeep-verify"} {
		out, err := kubectl(t.Context(), "auth", "can-i", "get", "configmaps/nodekeep-accepted", "-n", r.namespace, "--as", account(name))
		assert.NoError(t, err, "%s %s", name, out)
	}
}
