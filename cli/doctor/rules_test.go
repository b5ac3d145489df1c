package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// requireNamed fails unless the check names this object alone, or nothing if it is empty.
func requireNamed(t *testing.T, seen Installation, object string) {
	t.Helper()
	findings := judgeAdmissionRules(seen).findings
	if object == "" {
		assert.Empty(t, findings)
		return
	}
	require.Len(t, findings, 1)
	assert.Equal(t, Warning, findings[0].Severity)
	assert.Equal(t, object, findings[0].Object)
	assert.True(t, strings.HasPrefix(findings[0].Message, "it may judge the CREATE of Nodes. "), findings[0].Message)
	assert.NotEmpty(t, findings[0].Text)
}

func read[T any](t *testing.T, text string) (value T) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &value))
	return value
}

func TestAValidatingAdmissionPolicyThatMayDenyTheCreateOfNodesIsNamed(t *testing.T) {
	const nodes = `resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]`
	const denies = `{policyName: p, validationActions: [Deny]}`
	const named = "validatingadmissionpolicy/p"
	for name, c := range map[string]struct{ spec, binding, want string }{
		"Nodes":                            {`matchConstraints: {` + nodes + `}`, denies, named},
		"everything":                       {`matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`, denies, named},
		"everything with subresources":     {`matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]}`, denies, named},
		"Nodes with subresources":          {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: ["nodes/*"], scope: Cluster}]}`, denies, named},
		"their status":                     {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes/status, "*/status"]}]}`, denies, ""},
		"their updates":                    {`matchConstraints: {resourceRules: [{operations: [UPDATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}`, denies, ""},
		"what is in namespaces":            {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], scope: Namespaced}]}`, denies, ""},
		"another group":                    {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: ["*"]}]}`, denies, ""},
		"all but Nodes":                    {`matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}], excludeResourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [nodes]}]}`, denies, ""},
		"with conditions":                  {`matchConditions: [{name: kubelets, expression: "true"}]` + "\n" + `matchConstraints: {` + nodes + `}`, denies, named},
		"with a selector":                  {`matchConstraints: {objectSelector: {matchLabels: {a: b}}, ` + nodes + `}`, denies, named},
		"a namespaceSelector says nothing": {`matchConstraints: {namespaceSelector: {matchLabels: {a: b}}, ` + nodes + `}`, denies, named},
		"with names":                       {`matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes], resourceNames: [a]}]}`, denies, named},
		"a binding that warns":             {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Warn, Audit]}`, ""},
		"a binding of another policy":      {`matchConstraints: {` + nodes + `}`, `{policyName: q, validationActions: [Deny]}`, ""},
		"a binding to other resources":     {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Deny], matchResources: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}}`, ""},
		"a binding to namespaces":          {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {a: b}}}}`, named},
		"a binding that excludes Nodes":    {`matchConstraints: {` + nodes + `}`, `{policyName: p, validationActions: [Deny], matchResources: {excludeResourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}}`, ""},
		"no constraints":                   {``, denies, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			policy := admissionregistrationv1.ValidatingAdmissionPolicy{Spec: read[admissionregistrationv1.ValidatingAdmissionPolicySpec](t, c.spec)}
			policy.Name = "p"
			binding := admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: read[admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec](t, c.binding)}
			seen.ValidatingPolicies, seen.ValidatingBindings = Found([]admissionregistrationv1.ValidatingAdmissionPolicy{policy}), Found([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{binding})
			requireNamed(t, seen, c.want)
		})
	}
}

func TestPoliciesOfNodekeepAreNotNamed(t *testing.T) {
	seen := healthy(t)
	ok := read[admissionregistrationv1.ValidatingAdmissionPolicySpec](t, `matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`)
	policy := admissionregistrationv1.ValidatingAdmissionPolicy{Spec: ok}
	policy.Name = "nodekeep-guard"
	seen.ValidatingPolicies = Found([]admissionregistrationv1.ValidatingAdmissionPolicy{policy})
	seen.ValidatingBindings = Found([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{{Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"}}}})
	requireNamed(t, seen, "")
}

func TestAWebhookThatIsCalledForTheCreateOfNodesIsNamed(t *testing.T) {
	const all = `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]`
	const named = "validatingwebhookconfiguration/w"
	for name, c := range map[string]struct{ configuration, want string }{
		"another client's":                    {`{webhooks: [{name: a.example.com, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}, {name: b.example.com, ` + all + `}]}`, named},
		"one with conditions":                 {`{webhooks: [{name: b.example.com, matchConditions: [{name: some, expression: "true"}], objectSelector: {matchLabels: {a: b}}, ` + all + `}]}`, named},
		"one for pods":                        {`{webhooks: [{name: a.example.com, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}]}`, ""},
		"Gatekeeper's, whose rules are known": {`{metadata: {labels: {gatekeeper.sh/system: "yes"}}, webhooks: [{name: validation.gatekeeper.sh, ` + all + `}]}`, ""},
		"Kyverno's, whose rules are known":    {`{metadata: {labels: {webhook.kyverno.io/managed-by: kyverno}}, webhooks: [{name: validate.kyverno.svc-fail, ` + all + `}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			configuration := read[admissionregistrationv1.ValidatingWebhookConfiguration](t, c.configuration)
			configuration.Name = "w"
			seen.AllValidating.Value = append(seen.AllValidating.Value, configuration)
			requireNamed(t, seen, c.want)
		})
	}
}

func TestTheWebhookOfAnEngineIsNamedWhereItsRulesAreNotKnown(t *testing.T) {
	seen := healthy(t)
	configuration := read[admissionregistrationv1.ValidatingWebhookConfiguration](t, `{metadata: {name: w, labels: {webhook.kyverno.io/managed-by: kyverno}}, `+
		`webhooks: [{name: validate.kyverno.svc-fail, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]}`)
	seen.AllValidating.Value = append(seen.AllValidating.Value, configuration)
	seen.Kyverno = NotKnown[[]unstructured.Unstructured](Unknown{Reason: "you may not list clusterpolicies.kyverno.io"})
	findings := judgeAdmissionRules(seen).findings
	require.Len(t, findings, 2)
	assert.Equal(t, SeverityUnknown, findings[0].Severity)
	assert.Equal(t, "validatingwebhookconfiguration/w", findings[1].Object)
}

func TestAMutatingWebhookOfOthersIsMentionedAndNoFinding(t *testing.T) {
	seen := healthy(t)
	assert.Equal(t, "no rule of others judges the CREATE of Nodes", judgeAdmissionRules(seen).okText)
	configuration := read[admissionregistrationv1.MutatingWebhookConfiguration](t, `{webhooks: [{name: a.example.com, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}]}`)
	configuration.Name = "w"
	seen.AllMutating.Value = append(seen.AllMutating.Value, configuration)
	a := judgeAdmissionRules(seen)
	assert.Empty(t, a.findings)
	assert.Equal(t, "no rule of others judges the CREATE of Nodes; others change it too: mutatingwebhookconfiguration/w", a.okText)
}

func TestARuleOfKyvernoThatMayDenyNodesIsNamed(t *testing.T) {
	const match, node = `match: {any: [{resources: {kinds: [Node]}}]}`, `{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: `
	const constraints = `matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [nodes]}]}`
	spec := func(rule, extra string) string {
		return `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {` + extra + `rules: [{name: other, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {failureAction: Enforce}}, {` + rule + `}]}}`
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
			requireNamed(t, seen, c.want)
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
			requireNamed(t, seen, c.want)
		})
	}
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
