package doctor

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/verify"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const inline = policytest.Head + "  labels: {protected: inline}\n"

func TestStaticFilesOfEachOptionAreAsShipped(t *testing.T) {
	for file, change := range map[string]func(*Installation){
		"nodekeep.yaml": func(*Installation) {},
		"nodekeep-verify.yaml": func(s *Installation) {
			s.ComparedObjects = inCluster(t, "crd.yaml", "nodekeep.yaml", "nodekeep-verify.yaml")
			s.ComparedObjects = append(s.ComparedObjects, fromFiles(t, s.LookupRoles(), "nodekeep-verify.yaml")...)
		},
		"nodekeep-cert-manager.yaml": func(s *Installation) {
			assert.Equal(t, "nodekeep-webhook-certificate", s.ServingSecret())
		},
		"complete.yaml": func(s *Installation) { s.setPolicy(inline) }, // it has no profile
	} {
		t.Run(file, func(t *testing.T) {
			seen := healthy(t)
			seen.ComparedObjects = inCluster(t, "crd.yaml", file)
			change(&seen)
			for _, check := range []string{checkRestore, checkDeletion, checkEndpoints, checkGate, checkGuards, checkPolicy, checkRights} {
				var a answer
				seen.compare(&a, check)
				assert.Empty(t, a.findings, check)
			}
			if seen.verifyDeployment().Found {
				var a answer
				seen.compare(&a, checkVerification)
				assert.Empty(t, a.findings)
			}
		})
	}
}

// Also what an installation does not need by itself is found where it does.
func TestEachObjectThatDoesNotExistIsFoundAndEachThatCouldNotBeReadIsUnknown(t *testing.T) {
	for _, expected := range expectations() {
		t.Run(expected.object, func(t *testing.T) {
			seen := healthy(t)
			removing(t, verify.RemovalKinds()...)(&seen)
			seen.setPolicy(profilesOf("name: removes, nodeSelector: a, onFailure: node", "name: waits, wait: {daemonSets: [apps/driver, auto]}"))
			seen.grantLookups()
			seen.arg(captureObject, "--metrics-secure")
			seen.arg(verifyObject, "--metrics-secure")
			object := seen.object(expected.object)
			require.NotEmpty(t, object.Shipped.Object, "the manifests have it")
			finding := func(severity Severity, subject string) string {
				return expected.check + ": " + string(severity) + ": " + expected.object + ": " + subject
			}
			for i := range seen.ComparedObjects {
				if seen.ComparedObjects[i].Name() == expected.object {
					seen.ComparedObjects[i].Live = NotKnown[*unstructured.Unstructured](Unknown{Reason: "you may not", Remedy: Remedy{Text: "Ask."}})
				}
			}
			assert.Contains(t, found(t, seen), finding(SeverityUnknown, "you may not"))
			seen.remove(expected.object)
			assert.Contains(t, found(t, seen), finding(expected.severity, object.namespaceText()+"it does not exist: "+expected.consequence))
		})
	}
}

// Each difference names the path and both values. Where a command is printed that patches the object, it mends the installation.
func TestEachDifferenceIsFoundWithWhatFollowsAndMendedByThePrintedPatch(t *testing.T) {
	const (
		restore = "webhooks[restore.nodekeep.dev]."
		capture = "webhooks[deletion.nodekeep.dev]."
		rule    = "spec.matchConstraints.resourceRules[0]."
		pod     = "spec.template.spec."
	)
	for name, c := range map[string]struct {
		object, patch string
		want          string // the beginning of the only finding of this object
		mended        bool   // by the printed patch
	}{
		"fails closed":                    {mutatingObject, `{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}`, "restore-webhook: error: " + mutatingObject + ": " + restore + "failurePolicy is Fail, and nodekeep ships Ignore: while the webhook is down, no Node can join and no kubelet can restart", true},
		"deletions fail closed":           {validatingObject, `{"op":"replace","path":"/webhooks/1/failurePolicy","value":"Fail"}`, "deletion-webhook: error: " + validatingObject + ": " + capture + "failurePolicy is Fail, and nodekeep ships Ignore: while the webhook is down, no Node can be deleted", true},
		"takes its time":                  {mutatingObject, `{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":10}`, "restore-webhook: warning: " + mutatingObject + ": " + restore + "timeoutSeconds is 10, and nodekeep ships 1: a webhook that hangs", true},
		"other operations":                {mutatingObject, `{"op":"replace","path":"/webhooks/0/rules/0/operations","value":["UPDATE"]}`, "restore-webhook: error: " + mutatingObject + ": " + restore + `rules[0].operations is ["UPDATE"], and nodekeep ships ["CREATE"]: ` + unrestoredEffect, true},
		"another scope":                   {mutatingObject, `{"op":"replace","path":"/webhooks/0/rules/0/scope","value":"Namespaced"}`, "restore-webhook: error: " + mutatingObject + ": " + restore + "rules[0].scope is Namespaced, and nodekeep ships Cluster: " + unrestoredEffect, true},
		"selects Nodes":                   {mutatingObject, `{"op":"replace","path":"/webhooks/0/objectSelector","value":{"matchLabels":{"pool":"a"}}}`, "restore-webhook: warning: " + mutatingObject + ": " + restore + `objectSelector is {"matchLabels":{"pool":"a"}}, and nodekeep does not set it: the API server does not call`, true},
		"selects Nodes by conditions":     {mutatingObject, `{"op":"add","path":"/webhooks/0/matchConditions/-","value":{"name":"not-mine","expression":"true"}}`, "restore-webhook: warning: " + mutatingObject + ": " + restore + "matchConditions is ...", false},
		"has a condition of another name": {mutatingObject, `{"op":"replace","path":"/webhooks/0/matchConditions/0/name","value":"not-mine"}`, "restore-webhook: warning: " + mutatingObject + ": " + restore + "matchConditions[0].name is not-mine", true},
		"policies fail closed":            {validatingObject, `{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}`, "policy: warning: " + validatingObject + ": webhooks[policy.nodekeep.dev].failurePolicy is Fail, and nodekeep ships Ignore: while the webhook is down, no NodePolicy can be changed", true},
		"policies are not checked":        {validatingObject, `{"op":"remove","path":"/webhooks/0"}`, "policy: warning: " + validatingObject + ": webhooks[policy.nodekeep.dev] is not set, and nodekeep ships {", false},
		"fields of policies are another":  {crdObject, `{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/type","value":"string"}`, "policy: warning: " + crdObject + ": spec.versions[0].schema.openAPIV3Schema.properties.spec.type is string, and nodekeep ships object: the API server may", true},
		"calls another namespace":         {validatingObject, `{"op":"replace","path":"/webhooks/1/clientConfig/service/namespace","value":"old"}`, "deletion-webhook: warning: " + validatingObject + ": " + capture + "clientConfig.service.namespace is old, and nodekeep ships nodekeep-system: " + deletionsUnobserved, true},
		"calls another path of a URL":     {validatingObject, `{"op":"replace","path":"/webhooks/1/clientConfig","value":{"url":"https://nodekeep-webhook.nodekeep-system.svc/old"}}`, "deletion-webhook: warning: " + validatingObject + ": " + capture + "clientConfig.url is https://nodekeep-webhook.nodekeep-system.svc/old, and nodekeep ships https://nodekeep-webhook.nodekeep-system.svc/deletion: ", true},
		"holds other webhooks":            {mutatingObject, `{"op":"replace","path":"/webhooks/0/name","value":"a.example.com"}`, "restore-webhook: error: " + mutatingObject + ": webhooks[restore.nodekeep.dev] is not set, and nodekeep ships {", false},
		"gate fails closed":               {gatePolicyObject, `{"op":"replace","path":"/spec/failurePolicy","value":"Fail"}`, "gate-policy: error: " + gatePolicyObject + ": spec.failurePolicy is Fail, and nodekeep ships Ignore: an error in the policy keeps Nodes from joining", true},
		"gate is added again":             {gatePolicyObject, `{"op":"replace","path":"/spec/reinvocationPolicy","value":"IfNeeded"}`, "gate-policy: error: " + gatePolicyObject + ": spec.reinvocationPolicy is IfNeeded, and nodekeep ships Never: the policy adds the gate again", true},
		"gate does nothing":               {gatePolicyObject, `{"op":"remove","path":"/spec/mutations"}`, "gate-policy: error: " + gatePolicyObject + ": spec.mutations is not set, and nodekeep ships [", false},
		"gate adds another taint":         {gatePolicyObject, `{"op":"replace","path":"/spec/mutations/0/jsonPatch/expression","value":"[]"}`, "gate-policy: error: " + gatePolicyObject + ": spec.mutations[0].jsonPatch.expression is [], and nodekeep ships has(object", false},
		"gate is for something else":      {gatePolicyObject, `{"op":"replace","path":"/spec/matchConstraints/resourceRules/0/resources","value":["pods"]}`, "gate-policy: error: " + gatePolicyObject + ": " + rule + `resources is ["pods"], and nodekeep ships ["nodes"]: ` + ungatedEffect, true},
		"gate is for some names":          {gatePolicyObject, `{"op":"add","path":"/spec/matchConstraints/resourceRules/0/resourceNames","value":["worker-1"]}`, "gate-policy: error: " + gatePolicyObject + ": " + rule + `resourceNames is ["worker-1"], and nodekeep does not set it: ` + ungatedEffect, true},
		"gate is for some labels":         {gatePolicyObject, `{"op":"add","path":"/spec/matchConstraints/objectSelector","value":{"matchLabels":{"a":"b"}}}`, "gate-policy: error: " + gatePolicyObject + ": spec.matchConstraints.objectSelector is {", true},
		"gate has one condition more":     {gatePolicyObject, `{"op":"add","path":"/spec/matchConditions/-","value":{"name":"never","expression":"false"}}`, "gate-policy: error: " + gatePolicyObject + ": spec.matchConditions is ", false},
		"gate waits for a parameter":      {gatePolicyObject, `{"op":"add","path":"/spec/paramKind","value":{"apiVersion":"v1","kind":"ConfigMap"}}`, "gate-policy: error: " + gatePolicyObject + ": spec.paramKind is {", true},
		"gate's binding is for another":   {gateBindingObject, `{"op":"replace","path":"/spec/policyName","value":"other"}`, "gate-policy: error: " + gateBindingObject + ": spec.policyName is other, and nodekeep ships nodekeep-gate: the policy does nothing", true},
		"gate's binding is for some":      {gateBindingObject, `{"op":"add","path":"/spec/matchResources","value":{}}`, "gate-policy: error: " + gateBindingObject + ": spec.matchResources is {}, and nodekeep does not set it: ", true},
		"gate's right is another":         {"role/" + GateObjectName, `{"op":"replace","path":"/rules/0/verbs","value":["open"]}`, "gate-policy: error: " + "role/" + GateObjectName + ": it does not grant close gates.nodekeep.dev in namespace nodekeep-system: the gate is switched off", false},
		"guard allows all":                {guard.GuardObject, `{"op":"replace","path":"/spec/validations/0/expression","value":"true"}`, "guard-policies: warning: " + guard.GuardObject + ": spec.validations[0].expression is true, and nodekeep ships false: " + annotationsForgeable, true},
		"guard forgets the status":        {guard.GuardObject, `{"op":"replace","path":"/spec/matchConstraints/resourceRules/0/resources","value":["nodes"]}`, "guard-policies: warning: " + guard.GuardObject + ": " + rule + `resources is ["nodes"], and nodekeep ships ["nodes","nodes/status"]: `, true},
		"guard fails closed":              {guard.GuardObject, `{"op":"replace","path":"/spec/failurePolicy","value":"Fail"}`, "guard-policies: error: " + guard.GuardObject + ": spec.failurePolicy is Fail, and nodekeep ships Ignore: an error in the policy keeps kubelets from updating", true},
		"guard only warns":                {guard.GuardBindingObject, `{"op":"replace","path":"/spec/validationActions","value":["Warn"]}`, "guard-policies: warning: " + guard.GuardBindingObject + `: spec.validationActions is ["Warn"], and nodekeep ships ["Deny"]: `, true},
		"guard is for another version":    {guard.GuardObject, `{"op":"replace","path":"/spec/matchConstraints/matchPolicy","value":"Exact"}`, "guard-policies: warning: " + guard.GuardObject + ": spec.matchConstraints.matchPolicy is Exact, and nodekeep does not set it: ", true},
		"strip fails closed":              {guard.StripObject, `{"op":"replace","path":"/spec/failurePolicy","value":"Fail"}`, "guard-policies: error: " + guard.StripObject + ": spec.failurePolicy is Fail, and nodekeep ships Ignore: an error in the policy keeps Nodes from joining", true},
		"strip has other mutations":       {guard.StripObject, `{"op":"remove","path":"/spec/mutations/0"}`, "guard-policies: warning: " + guard.StripObject + ": spec.mutations is ", false},
		"Service of other pods":           {serviceObject, `{"op":"replace","path":"/spec/selector/app.kubernetes.io~1component","value":"other"}`, "webhook-endpoints: error: " + serviceObject + ": spec.selector.app.kubernetes.io/component is other, and nodekeep ships webhook: " + serviceDownEffect, true},
		"Service of another port":         {serviceObject, `{"op":"replace","path":"/spec/ports/0/targetPort","value":"metrics"}`, "webhook-endpoints: error: " + serviceObject + ": spec.ports[webhook].targetPort is metrics, and nodekeep ships webhook: ", true},
		"a right is missing":              {"clusterrole/nodekeep-capture", `{"op":"replace","path":"/rules/1/verbs","value":["get","list"]}`, "account-rights: error: clusterrole/nodekeep-capture: it does not grant watch nodes, patch nodes: capture lacks rights: " + unrecordedEffect, false},
		"rights for some names":           {"role/nodekeep-capture", `{"op":"add","path":"/rules/1/resourceNames","value":["a"]}`, "account-rights: error: role/nodekeep-capture: it does not grant create leases.coordination.k8s.io in namespace nodekeep-system: ", false},
		"another ServiceAccount":          {"rolebinding/nodekeep-webhook", `{"op":"replace","path":"/subjects/0/name","value":"default"}`, "account-rights: error: rolebinding/nodekeep-webhook: subjects[nodekeep-webhook] is not set, and nodekeep ships {", true},
		"another namespace":               {"clusterrolebinding/nodekeep-webhook", `{"op":"replace","path":"/subjects/0/namespace","value":"old"}`, "account-rights: error: clusterrolebinding/nodekeep-webhook: subjects[nodekeep-webhook].namespace is old, and nodekeep ships nodekeep-system: ", true},
		"another role":                    {"clusterrolebinding/nodekeep-capture", `{"op":"replace","path":"/roleRef/name","value":"view"}`, "account-rights: error: clusterrolebinding/nodekeep-capture: roleRef.name is view, and nodekeep ships nodekeep-capture: ", false},
		"pods of another account":         {captureObject, `{"op":"replace","path":"/spec/template/spec/serviceAccountName","value":"default"}`, "capture-deployment: error: " + captureObject + ": " + pod + "serviceAccountName is default, and nodekeep ships nodekeep-capture: " + unrecordedEffect, false},
		"pods of more privileges":         {captureObject, `{"op":"replace","path":"/spec/template/spec/containers/0/securityContext/allowPrivilegeEscalation","value":true}`, "capture-deployment: warning: " + captureObject + ": " + pod + "containers[capture].securityContext.allowPrivilegeEscalation is true, and nodekeep ships false: the process has other privileges", false},
		"pods without their name":         {captureObject, `{"op":"replace","path":"/spec/template/spec/containers/0/env","value":[{"name":"GOGC","value":"off"}]}`, "capture-deployment: error: " + captureObject + ": " + pod + `containers[capture].env[POD_NAME] is not set, and nodekeep ships {"name":"POD_NAME"`, false},
		"pods of another namespace":       {webhookObject, `{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--namespace=old"}`, "webhook-deployment: error: " + webhookObject + ": " + pod + "containers[webhook].args[--namespace] is --namespace=old, and nodekeep ships --namespace=nodekeep-system: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			seen.patch(t, c.object, "["+c.patch+"]")
			var a answer
			check, _, _ := strings.Cut(c.want, ":")
			seen.compare(&a, check)
			require.NotEmpty(t, a.findings)
			finding := a.findings[0]
			assert.Contains(t, check+": "+string(finding.Severity)+": "+finding.Object+": "+finding.Message, c.want)
			assert.NotEmpty(t, finding.Text)
			require.NotEmpty(t, finding.Commands)
			operations := regexp.MustCompile(`^kubectl( -n nodekeep-system)? patch ` + c.object + ` --type=json -p='(.*)'$`).FindStringSubmatch(finding.Commands[0])
			require.Equal(t, c.mended, operations != nil, finding.Commands)
			if c.mended {
				seen.patch(t, c.object, operations[2])
				var mended answer
				seen.compare(&mended, check)
				assert.Empty(t, mended.findings)
			}
		})
	}
}

func TestWhatAnInstallationMayChooseIsNoDifference(t *testing.T) {
	for name, c := range map[string]struct{ object, patch string }{
		"labels and annotations":   {mutatingObject, `{"op":"add","path":"/metadata/annotations","value":{"cert-manager.io/inject-ca-from":"a/b"}}`},
		"a namespaceSelector":      {mutatingObject, `{"op":"replace","path":"/webhooks/0/namespaceSelector","value":{"matchLabels":{"a":"b"}}}`},
		"another message":          {guard.GuardObject, `{"op":"replace","path":"/spec/validations/0/message","value":"no"}`},
		"audits, too":              {guard.GuardBindingObject, `{"op":"add","path":"/spec/validationActions/-","value":"Audit"}`},
		"more subjects":            {"rolebinding/nodekeep-webhook", `{"op":"add","path":"/subjects/0","value":{"kind":"User","name":"jane"}}`},
		"all rights":               {"clusterrole/nodekeep-webhook", `{"op":"replace","path":"/rules","value":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`},
		"another key of the gate":  {gateKeyObject, `{"op":"add","path":"/data/other","value":"a"}`},
		"image and resources":      {captureObject, `{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.example.com/nodekeep:v2"}`},
		"other probes":             {captureObject, `{"op":"remove","path":"/spec/template/spec/containers/0/livenessProbe"}`},
		"another flag":             {captureObject, `{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--log-level=debug"}`},
		"variables of yours":       {captureObject, `{"op":"add","path":"/spec/template/spec/containers/0/env/0","value":{"name":"KUBERNETES_SERVICE_HOST","value":"10.0.0.1"}}`},
		"variables of all":         {webhookObject, `{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"GOMEMLIMIT","value":"400MiB"}}`},
		"a sidecar":                {captureObject, `{"op":"add","path":"/spec/template/spec/containers/0","value":{"name":"mesh","image":"mesh"}}`},
		"what the API server sets": {serviceObject, `{"op":"add","path":"/spec/clusterIP","value":"10.0.0.1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			seen.patch(t, c.object, "["+c.patch+"]")
			all := found(t, seen)
			assert.Empty(t, all)
		})
	}
}

// A long value is shown from where it begins to differ.
func TestALongValueIsShownWhereItDiffers(t *testing.T) {
	seen := healthy(t)
	expression := stringAt(mapsIn(seen.object(guard.GuardObject).Live.Value.Object, "spec", "matchConditions")[0], "expression")
	mapsIn(seen.object(guard.GuardObject).Live.Value.Object, "spec", "matchConditions")[0]["expression"] = strings.Replace(expression, "400", "4000", 1)
	all := found(t, seen)
	require.Len(t, all, 1)
	assert.Regexp(t, `spec\.matchConditions\[0\]\.expression is \.\.\..*<= 4000 &&.*\.\.\., and nodekeep ships \.\.\..*<= 400 &&`, all[0])
	assert.Less(t, len(all[0]), 800)
}

func TestAGateWithAnotherKeyIsAsShippedWhereAllAgree(t *testing.T) {
	const key = "example.com/waits"
	seen := healthy(t)
	edit(&seen, gateKeyObject, func(c *corev1.ConfigMap) { c.Data[GateConfigMapKey] = key })
	seen.UnnamedDryRun.Value.Spec.Taints[0].Key = key
	all := found(t, seen)
	want := ".spec.containers[capture].args[--gate-key] is --gate-key=nodekeep.dev/restoring, and nodekeep ships --gate-key=" + key + ": Nodes do not come out from behind the gate"
	assert.Contains(t, all, "capture-deployment: error: "+captureObject+": spec.template"+want)

	for i, object := range seen.ComparedObjects {
		if object.Live.Found && object.Name() != gateKeyObject {
			content, err := object.Live.Value.MarshalJSON()
			require.NoError(t, err)
			require.NoError(t, seen.ComparedObjects[i].Live.Value.UnmarshalJSON([]byte(strings.ReplaceAll(string(content), "nodekeep.dev/restoring", key))))
		}
	}
	all = found(t, seen)
	assert.Empty(t, all)
}

func TestOptionsDecideWhatIsNeeded(t *testing.T) {
	inlineWebhook := func(s *Installation, stamp string) {
		s.patch(t, mutatingObject, `[{"op":"copy","from":"/webhooks/0","path":"/webhooks/`+stamp+`"},{"op":"replace","path":"/webhooks/`+strings.Replace(stamp, "-", "1", 1)+`/name","value":"`+protectedHook+`"}]`)
	}
	const order = "restore-webhook: warning: " + mutatingObject + ": the policy says protected: inline, and there is no webhook restore-protected.nodekeep.dev before restore.nodekeep.dev: protected labels are deferred"
	for name, c := range map[string]struct {
		change func(*Installation)
		want   []string // the beginnings of findings
		absent []string // what no finding contains
	}{
		"inline needs the second webhook and the right to impersonate": {func(s *Installation) { s.setPolicy(inline) }, []string{
			order, "account-rights: error: clusterrole/nodekeep-webhook: it does not grant impersonate:arbitrary-node nodes.authentication.k8s.io/nodekeep-self-test, impersonate-on:arbitrary-node:create nodes: ",
		}, nil},
		"inline needs the second webhook first": {func(s *Installation) { s.setPolicy(inline); inlineWebhook(s, "-") }, []string{order}, nil},
		"the second webhook is called again": {func(s *Installation) { s.setPolicy(inline); inlineWebhook(s, "0") }, []string{
			"restore-webhook: error: " + mutatingObject + ": webhooks[restore-protected.nodekeep.dev].clientConfig.service.path is /restore, and nodekeep ships /restore-protected: ",
			"restore-webhook: error: " + mutatingObject + ": webhooks[restore-protected.nodekeep.dev].reinvocationPolicy is Never, and nodekeep ships IfNeeded: ",
		}, []string{order}},
		"rules about devices need the right to read ResourceSlices": {func(s *Installation) {
			s.setPolicy(policytest.Manifest(`labels: {rules: [{name: gpu, when: {devices: {driver: gpu.example.com}}, set: {gpu: "true"}}]}`))
		}, []string{"account-rights: error: clusterrole/nodekeep-capture: it does not grant get resourceslices.resource.k8s.io, list resourceslices.resource.k8s.io, watch resourceslices.resource.k8s.io: "}, nil},
		"rules about features need the right to read NodeFeatures": {func(s *Installation) {
			s.setPolicy(policytest.Manifest(`labels: {rules: [{name: avx, when: {features: {cpu.cpuid.AVX512F: "*"}}, set: {avx: "true"}}]}`))
		}, []string{"account-rights: error: clusterrole/nodekeep-capture: it does not grant get nodefeatures.nfd.k8s-sigs.io, list nodefeatures.nfd.k8s-sigs.io, watch nodefeatures.nfd.k8s-sigs.io: "}, nil},
		"declared features need no right": {func(s *Installation) {
			s.setPolicy(policytest.Manifest(`labels: {rules: [{name: resize, when: {features: {PodResize: "*"}}, set: {resize: "true"}}]}`))
		}, nil, []string{"account-rights"}},
		"metrics of a ServiceAccount need the binding": {func(s *Installation) { s.arg(webhookObject, "--metrics-secure") }, []string{"account-rights: warning: " + metricsObject + ": it does not exist: nobody can read the metrics"}, nil},
		"another certificate needs no right to Secrets": {func(s *Installation) {
			byFiles(s)
			s.patch(t, "role/nodekeep-webhook", `[{"op":"remove","path":"/rules/1"}]`)
			s.patch(t, "clusterrole/nodekeep-webhook", `[{"op":"remove","path":"/rules/2"}]`)
		}, nil, []string{"account-rights"}},
		"its own certificate does": {func(s *Installation) { s.patch(t, "role/nodekeep-webhook", `[{"op":"remove","path":"/rules/1"}]`) }, []string{
			"account-rights: error: role/nodekeep-webhook: it does not grant get secrets/nodekeep-webhook-tls in namespace nodekeep-system, update secrets/nodekeep-webhook-tls in namespace nodekeep-system: ",
		}, nil},
		"without the record of deletions the webhook writes nothing": {func(s *Installation) {
			s.patch(t, validatingObject, `[{"op":"remove","path":"/webhooks/1"}]`)
			s.patch(t, "role/nodekeep-webhook", `[{"op":"replace","path":"/rules/0/verbs","value":["get","list","watch"]}]`)
			s.patch(t, "clusterrole/nodekeep-webhook", `[{"op":"remove","path":"/rules/1"}]`)
		}, []string{"deletion-webhook: warning: " + validatingObject + ": it has no webhook deletion.nodekeep.dev: " + deletionsUnobserved}, []string{"account-rights"}},
		"an API server without MutatingAdmissionPolicies": {func(s *Installation) {
			s.MutatingPoliciesServed.Value = false
			s.remove(gatePolicyObject, gateBindingObject, "role/"+GateObjectName, "rolebinding/"+GateObjectName, guard.StripObject, guard.StripBindingObject)
		}, []string{
			"gate-policy: warning: : this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has): unless its kubelet puts the gate on, " + ungatedEffect,
			"guard-policies: warning: : this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has), so nothing removes such annotations from a kubelet's CREATE: " + annotationsForgeable,
		}, []string{"does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			c.change(&seen)
			all := found(t, seen)
			joined := strings.Join(all, "\n")
			for _, want := range c.want {
				assert.Contains(t, joined, want)
			}
			for _, emptyText := range c.absent {
				assert.NotContains(t, joined, emptyText)
			}
			if c.want == nil && c.absent == nil {
				assert.Empty(t, all)
			}
		})
	}
}
