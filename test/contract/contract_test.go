package contract

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/verify"
)

// rule is when a tool takes a Node for unhealthy: it has had the condition with this status for so long.
type rule struct {
	Type, Status string
	Seconds      int
}

// matches compares as Cluster API and Medik8s do. A condition that is missing, or has another status, is healthy. The time counts from
// lastTransitionTime.
func (r rule) matches(conditions []corev1.NodeCondition, now time.Time) bool {
	for _, item := range conditions {
		if string(item.Type) == r.Type && string(item.Status) == r.Status {
			return !now.Before(item.LastTransitionTime.Add(time.Duration(r.Seconds) * time.Second))
		}
	}
	return false
}

// clusterAPI reads a MachineHealthCheck with the types of Cluster API.
func clusterAPI(t *testing.T, text string) (rules []rule, brake string, err error) {
	t.Helper()
	program := exec.CommandContext(t.Context(), "go", "run", "-C", "../programs/clusterapi", ".")
	var out, problem bytes.Buffer
	program.Stdin, program.Stdout, program.Stderr = strings.NewReader(text), &out, &problem
	if err := program.Run(); err != nil {
		t.Log(problem.String())
		return nil, "", err
	}
	var says struct {
		Conditions []rule
		Brake      string
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &says))
	return says.Conditions, says.Brake, nil
}

// unhealthy returns what the examples of the docs take for unhealthy, by their tool.
func unhealthy(t *testing.T) map[string][]rule {
	t.Helper()
	all := map[string][]rule{}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		rules, brake, err := clusterAPI(t, example(t, "cluster.x-k8s.io/"+version, "MachineHealthCheck"))
		require.NoError(t, err)
		assert.Equal(t, "20%", brake, "a brake is set")
		all["Cluster API "+version] = rules
	}
	var check nodeHealthCheck
	require.NoError(t, yaml.UnmarshalStrict([]byte(example(t, "remediation.medik8s.io/v1alpha1", "NodeHealthCheck")), &check))
	assert.Equal(t, "80%", check.Spec.MinHealthy.String(), "a brake is set")
	for _, item := range check.Spec.UnhealthyConditions {
		all["Medik8s"] = append(all["Medik8s"], rule{item.Type, string(item.Status), int(item.Duration.Seconds())})
	}
	return all
}

func TestTheExamplesOfTheDocsAreOfTheTypesOfOtherTools(t *testing.T) {
	for tool, rules := range unhealthy(t) {
		assert.Equal(t, rule{verify.Condition, "False", 600}, rules[0], tool)
		assert.Contains(t, rules, rule{string(corev1.NodeReady), "Unknown", 300}, "%s: its defaults are replaced", tool)
	}
	var readiness nodeReadinessRule
	require.NoError(t, yaml.UnmarshalStrict([]byte(example(t, "readiness.node.x-k8s.io/v1alpha1", "NodeReadinessRule")), &readiness))
	require.Len(t, readiness.Spec.Conditions, 1)
	assert.Equal(t, verify.Condition, readiness.Spec.Conditions[0].Type)
	assert.Equal(t, corev1.ConditionTrue, readiness.Spec.Conditions[0].RequiredStatus)
	assert.Contains(t, []string{"bootstrap-only", "continuous"}, readiness.Spec.EnforcementMode)
	taint := readiness.Spec.Taint
	keeps, _ := policy.Default().Keeps(taint.Key + ":" + string(taint.Effect))
	assert.False(t, keeps, "nodekeep neither records nor restores its taint")

	_, _, err := clusterAPI(t, strings.Replace(example(t, "cluster.x-k8s.io/v1beta2", "MachineHealthCheck"), "timeoutSeconds", "timeout", 1))
	assert.Error(t, err, "an unknown field is an error")
}

// life is a Node whose condition is written as the controller does: lastTransitionTime changes with the status alone.
type life struct {
	t         *testing.T
	profiles  verify.Profiles
	node      verify.Node
	condition corev1.NodeCondition
	now       time.Time
}

// fail has an attempt end so, then writes what the plan shows.
func (l *life) fail(wait time.Duration, last verify.Last) {
	l.t.Helper()
	l.now = l.now.Add(wait)
	progress, profile := verify.ParseProgress(l.node.Annotation), l.profiles.All()[0]
	last.Time = l.now
	progress.Hash, progress.BootID, progress.Reports, progress.Last, progress.Attempts = profile.Hash, l.node.BootID, true, &last, 1
	if last.Result == verify.VerdictPassed {
		progress.Attempts = 0
	}
	l.node.Annotation = progress.String()
	action := verify.Plan(verify.Observed{Node: &l.node}, l.profiles, verify.Cluster{}, l.now)
	require.Equal(l.t, verify.DoShow, action.Operation, action.Diagnosis.String())
	if l.condition.Status != action.Show.Status {
		l.condition.LastTransitionTime = metav1.NewTime(l.now)
	}
	l.condition.Type, l.condition.Status, l.condition.Reason, l.condition.LastHeartbeatTime = verify.Condition, action.Show.Status, action.Show.Reason, metav1.NewTime(l.now)
	l.node.Verified, l.node.ShownAt = action.Show, l.now
}

func TestOtherToolsActOnANodeThatFailsForLongAndOnNoOther(t *testing.T) {
	loaded, err := policy.Load([]byte(policytest.Manifest("verify: {profiles: [{name: a, mode: report, checks: [{name: dns, dns: {names: [a]}}]}]}\n")), policy.DefaultGate)
	require.NoError(t, err)
	failed, passed := verify.Last{Result: verify.VerdictFailed, Check: "dns", Reason: "Timeout"}, verify.Last{Result: verify.VerdictPassed}
	shared := verify.Last{Result: verify.VerdictShared, Check: "dns", Reason: verify.ReasonShared}
	unconfirmed := verify.Last{Result: verify.VerdictFailed, Check: "dns", Reason: "Timeout", Unconfirmed: true}
	image := verify.Last{Result: verify.VerdictInconclusive, Reason: string(verify.CauseImage)}
	for name, row := range map[string]struct {
		lasts []verify.Last // one each four minutes
		acts  bool
		ready bool // for a rule that requires True
	}{
		"it fails for eight minutes":              {lasts: []verify.Last{passed, failed, failed, failed}},
		"it fails for twelve minutes":             {lasts: []verify.Last{passed, failed, failed, failed, failed}, acts: true},
		"it passes between":                       {lasts: []verify.Last{failed, failed, passed, failed, failed}},
		"it passes":                               {lasts: []verify.Last{passed, passed, passed, passed, passed}, ready: true},
		"a fault that all share":                  {lasts: []verify.Last{passed, shared, shared, shared, shared}, ready: true},
		"a fault that all share, on a new one":    {lasts: []verify.Last{shared, shared, shared, shared, shared}},
		"a fault that all share, after its own":   {lasts: []verify.Last{failed, shared, shared, shared}},
		"no other Node is verified":               {lasts: []verify.Last{unconfirmed, unconfirmed, unconfirmed, unconfirmed, unconfirmed}},
		"none any more":                           {lasts: []verify.Last{passed, unconfirmed, unconfirmed, unconfirmed, unconfirmed}, ready: true},
		"an image cannot be pulled":               {lasts: []verify.Last{passed, image, image, image, image}, ready: true},
		"an image cannot be pulled, on a new one": {lasts: []verify.Last{image, image, image, image}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &life{t: t, profiles: loaded.Verify(), now: time.Unix(1_700_000_000, 0), node: verify.Node{Name: "n1", UID: "u1", Ready: true, BootID: "b1"}}
			for _, last := range row.lasts {
				l.fail(4*time.Minute, last)
			}
			conditions := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, l.condition}
			verified := rule{verify.Condition, "False", 600}
			assert.Equal(t, row.acts, verified.matches(conditions, l.now))
			assert.Equal(t, row.ready, l.condition.Status == corev1.ConditionTrue)
		})
	}
}
