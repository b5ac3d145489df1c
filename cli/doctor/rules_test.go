package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// judged are the objects that the check names, each with what else decides about it.
func judged(t *testing.T, seen Seen) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, finding := range judgeAdmissionRules(seen).findings {
		require.Equal(t, Warning, finding.Severity)
		require.NotEmpty(t, finding.Text)
		found[finding.Object] = finding.What
	}
	return found
}

func read[T any](t *testing.T, text string) (value T) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &value))
	return value
}

const judges = "it may judge the CREATE of Nodes. "

func TestAValidatingAdmissionPolicyThatMayDenyTheCreateOfNodesIsNamed(t *testing.T) {
	const nodes = `resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]`
	const denies = `{policyName: p, validationActions: [Deny]}`
	for name, c := range map[string]struct {
		spec, binding string
		want          string // how the finding begins; empty: there is none
	}{
		"Nodes":                            {`matchConstraints: {` + nodes + `}`, denies, judges},
		"everything":                       {`matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`, denies, judges},
		"everything with subresources":     {`matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}`, denies, judges},
		"Nodes with subresources":          {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: ["nodes/*"], scope: Cluster}]}`, denies, judges},
		"their status":                     {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes/status, "*/status"]}]}`, denies, ""},
		"their updates":                    {`matchConstraints: {resourceRules: [{operations: [UPDATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}`, denies, ""},
		"what is in namespaces":            {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Namespaced}]}`, denies, ""},
		"another group":                    {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: ["*"]}]}`, denies, ""},
		"all but Nodes":                    {`matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}], excludeResourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [nodes]}]}`, denies, ""},
		"with conditions":                  {`matchConditions: [{name: kubelets, expression: "true"}]` + "\n" + `matchConstraints: {` + nodes + `}`, denies, judges},
		"with a selector":                  {`matchConstraints: {objectSelector: {matchLabels: {a: b}}, ` + nodes + `}`, denies, judges},
		"a namespaceSelector says nothing": {`matchConstraints: {namespaceSelector: {matchLabels: {a: b}}, ` + nodes + `}`, denies, judges},
		"with names":                       {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes], resourceNames: [a]}]}`, denies, judges},
		"a binding that warns":             {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Warn, Audit]}`, ""},
		"a binding of another policy":      {`matchConstraints: {` + nodes + `}`, `{policyName: q, validationActions: [Deny]}`, ""},
		"a binding to other resources":     {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Deny], matchResources: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}}`, ""},
		"a binding to namespaces":          {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {a: b}}}}`, judges},
		"a binding that excludes Nodes":    {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Deny], matchResources: {excludeResourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}}`, ""},
		"no constraints":                   {``, denies, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			policy := admissionregistrationv1.ValidatingAdmissionPolicy{Spec: read[admissionregistrationv1.ValidatingAdmissionPolicySpec](t, c.spec)}
			policy.Name = "p"
			binding := admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: read[admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec](t, c.binding)}
			seen.Policies, seen.Bindings = Found([]admissionregistrationv1.ValidatingAdmissionPolicy{policy}), Found([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{binding})
			found := judged(t, seen)
			if c.want == "" {
				assert.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			assert.Contains(t, found["validatingadmissionpolicy/p"], c.want)
		})
	}
}

func TestPoliciesOfNodekeepAreNotNamed(t *testing.T) {
	seen := healthy(t)
	everything := read[admissionregistrationv1.ValidatingAdmissionPolicySpec](t, `matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`)
	policy := admissionregistrationv1.ValidatingAdmissionPolicy{Spec: everything}
	policy.Name = "nodekeep-guard"
	seen.Policies = Found([]admissionregistrationv1.ValidatingAdmissionPolicy{policy})
	seen.Bindings = Found([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{{Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"}}}})
	assert.Empty(t, judged(t, seen))
}

func TestAWebhookThatIsCalledForTheCreateOfNodesIsNamed(t *testing.T) {
	const all = `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]`
	for name, c := range map[string]struct {
		configuration string
		without       bool // the engines' own rules could not be read
		want          string
	}{
		"another client's":                     {configuration: `{webhooks: [{name: a.example.com, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}, {name: b.example.com, ` + all + `}]}`, want: judges},
		"one with conditions":                  {configuration: `{webhooks: [{name: b.example.com, matchConditions: [{name: some, expression: "true"}], objectSelector: {matchLabels: {a: b}}, ` + all + `}]}`, want: judges},
		"one for pods":                         {configuration: `{webhooks: [{name: a.example.com, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}]}`},
		"Gatekeeper's, whose rules are known":  {configuration: `{metadata: {labels: {gatekeeper.sh/system: "yes"}}, webhooks: [{name: validation.gatekeeper.sh, ` + all + `}]}`},
		"Kyverno's, whose rules are known":     {configuration: `{metadata: {labels: {webhook.kyverno.io/managed-by: kyverno}}, webhooks: [{name: validate.kyverno.svc-fail, ` + all + `}]}`},
		"Kyverno's, whose rules are not known": {configuration: `{metadata: {labels: {webhook.kyverno.io/managed-by: kyverno}}, webhooks: [{name: validate.kyverno.svc-fail, ` + all + `}]}`, without: true, want: judges},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			configuration := read[admissionregistrationv1.ValidatingWebhookConfiguration](t, c.configuration)
			configuration.Name = "w"
			seen.AllValidating.Value = append(seen.AllValidating.Value, configuration)
			var unknown int
			if c.without {
				seen.Kyverno, unknown = NotKnown[[]unstructured.Unstructured](Unknown{Why: "you may not list clusterpolicies.kyverno.io"}), 1
			}
			report := judgeAdmissionRules(seen).findings
			if c.want == "" {
				assert.Empty(t, report)
				return
			}
			require.Len(t, report, 1+unknown)
			assert.Equal(t, "validatingwebhookconfiguration/w", report[unknown].Object)
			assert.Contains(t, report[unknown].What, c.want)
		})
	}
}

func TestAMutatingWebhookOfOthersIsMentionedAndNoFinding(t *testing.T) {
	seen := healthy(t)
	assert.Equal(t, "no rule of others judges the CREATE of Nodes", judgeAdmissionRules(seen).ok)
	configuration := read[admissionregistrationv1.MutatingWebhookConfiguration](t, `{webhooks: [{name: a.example.com, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}]}`)
	configuration.Name = "w"
	seen.AllMutating.Value = append(seen.AllMutating.Value, configuration)
	a := judgeAdmissionRules(seen)
	assert.Empty(t, a.findings)
	assert.Equal(t, "no rule of others judges the CREATE of Nodes; others change it too: mutatingwebhookconfiguration/w", a.ok)
}

func TestARuleOfKyvernoThatMayDenyNodesIsNamed(t *testing.T) {
	const match, node = `match: {any: [{resources: {kinds: [Node]}}]}`, `{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: `
	const constraints = `matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}`
	spec := func(rule, more string) string {
		return `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {` + more + `rules: [{name: other, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {failureAction: Enforce}}, {` + rule + `}]}}`
	}
	const classic, modern = "clusterpolicy.kyverno.io/p", "validatingpolicy.policies.kyverno.io/p"
	for name, c := range map[string]struct{ policy, want string }{
		"Nodes":                       {spec(match+`, validate: {failureAction: Enforce}`, ``), classic},
		"enforced as a whole":         {spec(match+`, validate: {}`, `validationFailureAction: enforce, `), classic},
		"enforced in places":          {spec(match+`, validate: {}`, `validationFailureAction: Audit, validationFailureActionOverrides: [{action: Enforce, namespaces: [a]}], `), classic},
		"audited":                     {spec(match+`, validate: {}`, ``), ""},
		"a rule that is only audited": {spec(match+`, validate: {failureAction: Audit}`, `validationFailureAction: Enforce, `), ""},
		"not at admission":            {spec(match+`, validate: {failureAction: Enforce}`, `admission: false, `), ""},
		"mutates":                     {spec(match+`, mutate: {}`, `validationFailureAction: Enforce, `), ""},
		"with a group and a version":  {spec(`match: {all: [{resources: {kinds: [v1/Node], operations: [CREATE]}}]}, validate: {failureAction: Enforce}`, ``), classic},
		"with wildcards":              {spec(`match: {resources: {kinds: ["*"]}}, validate: {failureAction: Enforce}`, ``), classic},
		"their updates":               {spec(`match: {any: [{resources: {kinds: [Node], operations: [UPDATE]}}]}, validate: {failureAction: Enforce}`, ``), ""},
		"their status":                {spec(`match: {any: [{resources: {kinds: [Node/status]}}]}, validate: {failureAction: Enforce}`, ``), ""},
		"a new kind of policy":        {node + `{` + constraints + `, validationActions: [Deny]}}`, modern},
		"without actions":             {node + `{` + constraints + `}}`, modern},
		"which warns":                 {node + `{` + constraints + `, validationActions: [Warn]}}`, ""},
		"for pods":                    {node + `{matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}}}`, ""},
		"not at admission either":     {node + `{` + constraints + `, evaluation: {admission: {enabled: false}}}}`, ""},
		"of nothing":                  {node + `{}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			seen.Kyverno = Found([]unstructured.Unstructured{{Object: read[map[string]any](t, c.policy)}})
			namesOnly(t, judged(t, seen), c.want)
		})
	}
}

func TestAConstraintOfGatekeeperThatMayDenyNodesIsNamed(t *testing.T) {
	const name = "k8srequiredlabels.constraints.gatekeeper.sh/c"
	for title, c := range map[string]struct{ spec, want string }{
		"Nodes":              {`{match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}, {apiGroups: [""], kinds: [Node]}]}}`, name},
		"everything":         {`{match: {kinds: [{apiGroups: ["*"], kinds: ["*"]}]}, enforcementAction: deny}`, name},
		"no kinds":           {`{}`, name},
		"in scopes":          {`{enforcementAction: scoped}`, name},
		"pods":               {`{match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}`, ""},
		"another group":      {`{match: {kinds: [{apiGroups: [apps], kinds: ["*"]}]}}`, ""},
		"only in namespaces": {`{match: {scope: Namespaced}}`, ""},
		"a dry run":          {`{enforcementAction: dryrun}`, ""},
		"a warning":          {`{enforcementAction: warn}`, ""},
	} {
		t.Run(title, func(t *testing.T) {
			seen := healthy(t)
			seen.Gatekeeper = Found([]unstructured.Unstructured{{Object: read[map[string]any](t, `{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: K8sRequiredLabels, metadata: {name: c}, spec: `+c.spec+`}`)}})
			namesOnly(t, judged(t, seen), c.want)
		})
	}
}

func namesOnly(t *testing.T, found map[string]string, object string) {
	t.Helper()
	if object == "" {
		assert.Empty(t, found)
		return
	}
	require.Len(t, found, 1)
	assert.Contains(t, found, object)
}

// Objects of others hold what their API servers let through.
func TestMalformedRulesOfEnginesAreNoReasonToPanic(t *testing.T) {
	for _, spec := range []string{`1`, `{rules: 1}`, `{rules: [1, {validate: 1, match: {any: [{resources: []}]}}]}`, `{match: {kinds: [1, {kinds: 1}]}}`, `{matchConstraints: {resourceRules: 1}}`} {
		for _, kind := range []string{"ClusterPolicy", "ValidatingPolicy"} {
			seen := healthy(t)
			object := unstructured.Unstructured{Object: read[map[string]any](t, `{apiVersion: a/v1, kind: `+kind+`, metadata: {name: c}, spec: `+spec+`}`)}
			seen.Kyverno, seen.Gatekeeper = Found([]unstructured.Unstructured{object}), Found([]unstructured.Unstructured{object})
			assert.NotPanics(t, func() { judgeAdmissionRules(seen) })
		}
	}
}
