package doctor

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

const ns = "-n " + harness.Namespace

func TestAHealthyInstallationHasNoFindings(t *testing.T) {
	rollAll(t)
	out := isHealthy(t)
	assert.Equal(t, golden(t, "healthy", func() string { return out }), alike(out))

	var report struct {
		APIVersion, Kind  string
		Healthy           bool
		Findings, Unknown int
		Checks            []struct{ Check, Status, What string }
	}
	require.NoError(t, json.Unmarshal([]byte(isHealthy(t, "-o json")), &report))
	assert.Equal(t, "nodekeep.dev/v1alpha1", report.APIVersion)
	assert.Equal(t, "DoctorReport", report.Kind)
	assert.True(t, report.Healthy)
	assert.Len(t, report.Checks, strings.Count(out, "\n")-1)
	assert.Empty(t, run(t, "kubectl get nodes -o name"), "the dry runs have stored nothing")
}

func TestAnObjectThatIsMissingIsFound(t *testing.T) {
	rollAll(t)
	for golden, objects := range map[string][]string{
		"configurations-gone": {"mutatingwebhookconfiguration nodekeep", "validatingwebhookconfiguration nodekeep"},
		"gate-policy-gone":    {"mutatingadmissionpolicy nodekeep-gate"},
		"gate-switched-off":   {ns + " rolebinding nodekeep-gate"},
		"guard-binding-gone":  {"validatingadmissionpolicybinding nodekeep-guard"},
		"right-lacking":       {"-n default rolebinding nodekeep-capture-events"},
	} {
		t.Run(golden, func(t *testing.T) {
			var putBack []func()
			for _, object := range objects {
				putBack = append(putBack, removed(t, object))
			}
			finds(t, golden)
			if golden == "configurations-gone" {
				finds(t, "configurations-gone-skipped", "--skip deletion-webhook,ca-bundle,webhook-answers")
			}
			for _, put := range putBack {
				put()
			}
			isHealthy(t)
		})
	}
}

func TestAnObjectThatSaysSomethingElseIsFoundAndThePrintedCommandsPutItRight(t *testing.T) {
	rollAll(t)
	const failsClosed = `{"op":"replace","path":"/spec/failurePolicy","value":"Fail"}`
	for golden, change := range map[string]struct{ object, operations string }{
		"configuration-says-else": {"mutatingwebhookconfiguration nodekeep", `
			{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"},
			{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":10},
			{"op":"replace","path":"/webhooks/0/objectSelector","value":{"matchLabels":{"pool":"a"}}},
			{"op":"replace","path":"/webhooks/0/matchConditions/0/name","value":"some"}`},
		"gate-policy-fails-closed":  {"mutatingadmissionpolicy nodekeep-gate", failsClosed},
		"guard-policy-fails-closed": {"validatingadmissionpolicy nodekeep-guard", failsClosed},
	} {
		t.Run(golden, func(t *testing.T) {
			patch(t, change.object, change.operations)
			runs(t, finds(t, golden), "kubectl patch ")
			isHealthy(t)
		})
	}
}

func TestAWrongCABundleIsFoundAndThePrintedCommandPutsItRight(t *testing.T) {
	rollAll(t)
	require.NoError(t, nodekeep.StopWebhook(), "it would put it right itself within a minute")
	bundle, _ := newCertificate(t, time.Hour)
	wrong := base64.StdEncoding.EncodeToString(bundle)
	patch(t, "mutatingwebhookconfiguration nodekeep", `{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+wrong+`"}`)

	remedies := finds(t, "wrong-ca-bundle")
	runs(t, remedies, "kubectl patch mutatingwebhookconfiguration")
	finds(t, "webhook-stopped")
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	isHealthy(t)
}

func TestACertificateThatHasExpiredIsFoundAndThePrintedCommandAsksForAnother(t *testing.T) {
	rollAll(t)
	require.NoError(t, nodekeep.StopWebhook(), "it would put it right itself within a minute")
	authority, expired := newCertificate(t, -3*time.Hour)
	secret, err := json.Marshal(map[string]any{"data": map[string][]byte{"ca.crt": authority, "tls.crt": expired}})
	require.NoError(t, err)
	run(t, "kubectl "+ns+" patch secret nodekeep-webhook-tls --type=merge --patch-file="+fileOf(t, secret))

	remedies := finds(t, "certificate-expired")
	runs(t, remedies, "kubectl -n nodekeep-system patch secret/")
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	isHealthy(t)
}

func TestAServiceWithNobodyBehindItIsFound(t *testing.T) {
	rollAll(t)
	const service = `{"op":"add","path":"/webhooks/0/clientConfig/service","value":{"namespace":"nodekeep-system","name":"nodekeep-webhook","path":"/restore"}}`
	url := run(t, `kubectl get mutatingwebhookconfiguration nodekeep -o jsonpath='{.webhooks[0].clientConfig.url}'`)
	patch(t, "mutatingwebhookconfiguration nodekeep", `{"op":"remove","path":"/webhooks/0/clientConfig/url"},`+service)
	finds(t, "no-endpoints")

	slice := fileOf(t, []byte(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"nodekeep-webhook-1","labels":{"kubernetes.io/service-name":"nodekeep-webhook"}},
		"addressType":"IPv4","ports":[{"name":"webhook","port":9443}],"endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":false}},{"addresses":["192.0.2.2"]}]}`))
	run(t, "kubectl "+ns+" create -f "+slice)
	finds(t, "some-endpoints")
	putBack := removed(t, ns+" service nodekeep-webhook")
	finds(t, "no-service")
	putBack()
	run(t, "kubectl "+ns+" delete endpointslice nodekeep-webhook-1")
	patch(t, "mutatingwebhookconfiguration nodekeep",
		`{"op":"remove","path":"/webhooks/0/clientConfig/service"},{"op":"add","path":"/webhooks/0/clientConfig/url","value":"`+url+`"}`)
	isHealthy(t)
}

func TestACaptureThatDoesNotLeadIsFound(t *testing.T) {
	rollAll(t)
	require.NoError(t, nodekeep.StopCapture())
	finds(t, "leader-left")
	installed := strings.TrimSuffix(run(t, "kubectl "+ns+" get deployment nodekeep-capture -o jsonpath='{.metadata.creationTimestamp}'"), "Z")
	run(t, `kubectl `+ns+` patch lease nodekeep-capture --type=merge -p '{"spec":{"holderIdentity":"worker-1_00000000-0000-0000-0000-000000000000","renewTime":"`+installed+`.000000Z"}}'`)
	finds(t, "leader-dead")
	run(t, "kubectl "+ns+" delete lease nodekeep-capture")
	finds(t, "leader-never")
	require.NoError(t, nodekeep.StartCapture(t.Context()))
	isHealthy(t)
}

func TestRecordsThatCannotBeReadOrFoundOrWaitAndTheNodesBehindTheGateAreFound(t *testing.T) {
	rollAll(t)
	nodekeep.Quarantine(t)
	record := map[string]string{store.RecordLabel: "true"}
	configMap(t, "node.doctor-torn", record, map[string]string{store.DataKey: "{"})
	received(t, "doctor-torn")
	register(t, "doctor-torn")
	configMap(t, "node.doctor-stray", nil, map[string]string{store.DataKey: `{"version":1,"node":"doctor-stray","uid":"1","labels":{"a":"1"}}`})
	configMap(t, "node.doctor-two", record, map[string]string{
		store.DataKey:        `{"version":1,"node":"doctor-two","uid":"2","labels":{"a":"1"}}`,
		store.QuarantinedKey: `{"version":1,"node":"doctor-two","uid":"1","labels":{"a":"2"}}`,
	})
	remedies := finds(t, "records", "--gate-after 0s")
	runs(t, remedies, "kubectl -n nodekeep-system delete configmap node.doctor-torn")
	runs(t, remedies, "kubectl -n nodekeep-system label configmap ")
	run(t, "kubectl "+ns+" delete configmap node.doctor-two")
	isHealthy(t)
	run(t, "kubectl delete node doctor-torn")
	run(t, "kubectl "+ns+" delete configmap --ignore-not-found node.doctor-stray node.doctor-torn")
}

func TestAPolicyThatIsMissingOrWrongIsFoundAndThePrintedCommandsCreateItAndNameItsErrors(t *testing.T) {
	rollAll(t)
	isHealthy(t)
	shipped := nodekeep.Policy(t)
	nodekeep.DeletePolicy(t)
	runs(t, finds(t, "policy-gone"), "kubectl -n nodekeep-system get configmap/nodekeep-accepted ")
	isHealthy(t)
	assert.Equal(t, shipped, nodekeep.Policy(t), "it is created of the copy")

	nodekeep.ForcePolicy(t, policytest.Manifest("retention: 5s\nlabels: {keep: [a b]}"))
	remedies := finds(t, "policy-wrong")
	a := shell(t, remedies[0])
	assert.Equal(t, 2, a.Code)
	assert.Contains(t, a.Out, "spec.retention: Invalid value: \"5s\"")
	assert.Contains(t, a.Out, "spec.labels.keep[0]: Invalid value: \"a b\"")
	nodekeep.SetPolicy(t, shipped)
	isHealthy(t)

	putBack := removed(t, "customresourcedefinition nodepolicies.nodekeep.dev")
	finds(t, "policy-unserved")
	putBack()
	run(t, "kubectl wait --for=condition=Established customresourcedefinition/nodepolicies.nodekeep.dev")
	eventually(t, func() bool { return nodekeep.WritePolicy(t.Context(), shipped) == nil })
	isHealthy(t)
}

func TestDeploymentsThatAreNotAvailableAndPodsOfDifferentImagesAreFound(t *testing.T) {
	roll(t, "nodekeep-webhook", 0, "nodekeep:v1")
	roll(t, "nodekeep-capture", 1, "nodekeep:old")
	finds(t, "deployments")
	rollAll(t)
	isHealthy(t)
}

func TestAUserWithoutRightsSeesWhichRightsAreMissingAndHowToGetThem(t *testing.T) {
	rollAll(t)
	grants := finds(t, "no-rights", "--as jane")
	for _, grant := range grants {
		run(t, grant)
		assert.NotContains(t, grant, "secret")
	}
	assert.Contains(t, isHealthy(t, "--as jane"), "jane may read Nodes and records, and not create configmaps in namespace nodekeep-system, patch configmaps")
}

// The certificate is seen without any right to the Secret that has its private key.
func TestTheCertificateIsSeenByTheDryRunsAlone(t *testing.T) {
	rollAll(t)
	run(t, "kubectl create clusterrole dry-runs --verb=create --resource=nodes && kubectl create clusterrolebinding dry-runs --clusterrole=dry-runs --user=ruth")
	var out string
	eventually(t, func() bool {
		out = shell(t, "nodekeep doctor --as ruth").Out
		return regexp.MustCompile(`(?m)^certificate +ok +the webhook's certificate is valid for `).MatchString(out)
	})
	assert.Regexp(t, `(?m)^certificate +ok +the webhook's certificate is valid for `, out)
	assert.NotContains(t, out, "secrets")
}

func TestWhatIsNotAnsweredInTimeIsUnknown(t *testing.T) {
	rollAll(t)
	run(t, "kubectl "+ns+" create serviceaccount doctor && kubectl create clusterrolebinding doctor --clusterrole=cluster-admin --serviceaccount=nodekeep-system:doctor")
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "doctor")
	require.NoError(t, err)
	link, err := proxy.Start(config)
	require.NoError(t, err)
	t.Cleanup(link.Stop)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(kubeconfig, link.Config(config)))
	link.Break(proxy.Hang(func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes" }, time.Hour)) // longer than any test may wait

	const want = "gated-nodes unknown 1 unknown; see below\nclosed-nodes unknown 1 unknown; see below\npaused-items unknown 1 unknown; see below\nclaimed-keys unknown 1 unknown; see below\nnot-kept unknown 1 unknown; see below\nverification unknown 1 unknown; see below\n\nunknown (gated-nodes, closed-nodes, paused-items, claimed-keys, not-kept, verification): there was no answer within 5s\n  Try again, with a longer --timeout.\n"
	var a harness.Answer
	eventually(t, func() bool { // the API server takes moments to follow what was granted
		a = nodekeep.Shell(t, kubeconfig, "", "nodekeep doctor --timeout 5s")
		return findings(a.Out) == want
	})
	assert.Equal(t, 1, a.Code)
	assert.Equal(t, "0 findings, 6 unknown\n", a.ErrOut)
	assert.Equal(t, want, findings(a.Out))
}

func TestAnAPIServerThatCannotBeReachedAndWrongFlagsEndTheCommand(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"nodekeep doctor --server https://127.0.0.1:1": {3, "the API server at https://127.0.0.1:1 cannot be reached"},
		"nodekeep doctor --skip leader,nothing":        {2, `--skip "nothing": must be one of api-server, clock`},
		"nodekeep doctor --timeout 0s":                 {2, "--timeout must be more than 0"},
		"nodekeep doctor worker-1":                     {2, "takes no arguments"},
		"nodekeep doctor -o name":                      {2, "must be one of table"},
	} {
		a := shell(t, line)
		assert.Equal(t, want.code, a.Code, line)
		assert.Contains(t, a.ErrOut, want.says, line)
		assert.Empty(t, a.Out, line)
	}
}

// runs runs those of the printed commands that begin like that; there must be one.
func runs(t *testing.T, remedies []string, begin string) {
	t.Helper()
	found := false
	for _, remedy := range remedies {
		if strings.HasPrefix(remedy, begin) {
			found = true
			run(t, remedy)
		}
	}
	require.True(t, found, "%q does not begin any of %q", begin, remedies)
}

// The engines' kinds are made here as bare as doctor needs them.
func TestAdmissionRulesOfOthersThatMayDenyNodesAreFound(t *testing.T) {
	rollAll(t)
	apply := func(content string) {
		t.Helper()
		run(t, "kubectl apply --server-side -f "+fileOf(t, []byte(content)))
	}
	const denies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: kubelets-may-not-set-dedicated}
spec:
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}
  matchConditions: [{name: kubelets, expression: "'system:nodes' in request.userInfo.groups"}]
  validations: [{expression: "!has(object.metadata.labels) || !('dedicated' in object.metadata.labels)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: kubelets-may-not-set-dedicated}
spec: {policyName: kubelets-may-not-set-dedicated, validationActions: [Deny]}
`
	const engine = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  names: {kind: KIND, plural: PLURAL}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	apply(denies)
	for _, kind := range [][]string{{"clusterpolicies", "kyverno.io", "ClusterPolicy"}, {"validatingpolicies", "policies.kyverno.io", "ValidatingPolicy"}, {"k8snodelabels", "constraints.gatekeeper.sh", "K8sNodeLabels"}} {
		apply(strings.NewReplacer("PLURAL", kind[0], "GROUP", kind[1], "KIND", kind[2]).Replace(engine))
		run(t, "kubectl wait --for=condition=Established crd/"+kind[0]+"."+kind[1])
	}
	eventually(t, func() bool { return shell(t, "kubectl get clusterpolicies,validatingpolicies,k8snodelabels").Code == 0 })
	apply(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: node-labels}
spec: {rules: [{name: a, match: {any: [{resources: {kinds: [Node]}}]}, validate: {failureAction: Enforce}}]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: pod-labels}
spec: {rules: [{name: a, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {failureAction: Enforce}}]}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: node-labels}
spec: {validationActions: [Deny], matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}}
---
apiVersion: constraints.gatekeeper.sh/v1
kind: K8sNodeLabels
metadata: {name: node-labels}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Node]}]}}
`)
	commands := finds(t, "admission-rules")
	runs(t, commands, "kubectl get validatingadmissionpolicy/kubelets-may-not-set-dedicated")
	runs(t, commands, "kubectl get clusterpolicy.kyverno.io/node-labels")
	runs(t, commands, "kubectl get k8snodelabels.constraints.gatekeeper.sh/node-labels")
	isHealthy(t, "--skip admission-rules")

	run(t, "kubectl delete crd clusterpolicies.kyverno.io validatingpolicies.policies.kyverno.io k8snodelabels.constraints.gatekeeper.sh")
	run(t, `kubectl patch validatingadmissionpolicy kubelets-may-not-set-dedicated --type=merge -p '{"spec":{"matchConditions":[],"validations":[{"expression":"object.metadata.?labels.?dedicated.hasValue()","message":"a Node must be dedicated"}]}}'`)
	finds(t, "admission-rule-denies")
	run(t, "kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy kubelets-may-not-set-dedicated")
	isHealthy(t)
}

func TestWhatTalosSetsTooIsANoteInAHealthyCluster(t *testing.T) {
	rollAll(t)
	const name = "doctor-talos"
	run(t, `kubectl create -f - <<'EOF'
{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+name+`","labels":{"rack":"7"},"annotations":{"talos.dev/owned-labels":"[\"rack\"]"}}}
EOF`)
	defer run(t, "kubectl delete node "+name)
	_, below, _ := strings.Cut(isHealthy(t), "\n\n")
	claimed, kept, _ := strings.Cut(below, "\n\n")
	assert.Equal(t, `note (claimed-keys): Talos says in talos.dev/owned-labels of doctor-talos that it sets rack; nodekeep restores that all the same
  Declare each in one place. To leave it to the component, list it in labels.ignore or taints.ignore of the policy.
    nodekeep explain doctor-talos`, claimed)
	assert.Contains(t, kept, "note (not-kept): not kept (it belongs to the node lifecycle controller): node.kubernetes.io/not-ready:NoSchedule\n")
	for line := range strings.Lines(kept) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			assert.Contains(t, run(t, command), "node.kubernetes.io/not-ready:NoSchedule", command)
		}
	}
}

func TestWhatRulesAskForAndNoNodeHasIsANoteInAHealthyCluster(t *testing.T) {
	rollAll(t)
	const name = "doctor-asked"
	register(t, name)
	defer run(t, "kubectl delete node "+name)
	run(t, "kubectl patch node "+name+` --subresource=status --type=merge -p '{"status":{"capacity":{"cpu":"4"},"nodeInfo":{"architecture":"amd64","operatingSystem":"linux"}}}'`)
	shipped := nodekeep.Policy(t)
	defer nodekeep.SetPolicy(t, shipped)
	nodekeep.SetPolicy(t, policytest.Manifest(`labels: {rules: [
  {name: gpu, when: {names: [doctor-asked], capacity: {asked.example.com/gpu: ">=1", cpu: ">=1"}}, set: {asked: gpu}},
  {name: old, when: {names: [doctor-asked], labels: kubernetes.io/arch=mips64}, set: {asked: old}}]}`))
	_, below, _ := strings.Cut(isHealthy(t), "\n\n")
	assert.Contains(t, below, "note (label-rules): rule gpu asks for capacity.asked.example.com/gpu, which ")
	assert.Contains(t, below, "note (label-rules): rule old asks for kubernetes.io/arch=mips64, which ")
	assert.NotContains(t, below, "capacity.cpu")
	for line := range strings.Lines(below) {
		if command, ok := strings.CutPrefix(line, "    "); ok && strings.Contains(command, "get nodes") {
			assert.Contains(t, run(t, command), name, command)
		}
	}
}
