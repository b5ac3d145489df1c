package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/policy"
)

// declares has an emergency be declared, two hours ago.
func declares(t *testing.T, seen *Installation) {
	t.Helper()
	documents := strings.Split(manifests.Emergency, "\n---\n")
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), role))
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[1]), binding))
	binding.CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Hour))
	seen.EmergencyRole, seen.EmergencyBinding = Found(role), Found(binding)
}

func TestAnEmergencyIsAFindingUntilItIsEnded(t *testing.T) {
	seen := healthy(t)
	assert.Empty(t, judgeEmergency(seen).findings)
	declares(t, &seen)
	found := judgeEmergency(seen).findings
	require.Len(t, found, 1)
	assert.Equal(t, Warning, found[0].Severity)
	assert.Contains(t, found[0].Message, "declared 120m ago")
	assert.Contains(t, found[0].Commands, "nodekeep emergency --end")

	// What it switches off is no error of its own.
	seen.UnnamedDryRun, seen.NamedDryRuns = Found(&corev1.Node{}), Found([]corev1.Node{{}})
	assert.Empty(t, judgeGateInForce(seen).findings)
	assert.Empty(t, judgeAnswers(seen).findings)
	seen.EmergencyRole = Absent[*rbacv1.Role]()
	assert.NotEmpty(t, judgeGateInForce(seen).findings)
	assert.NotEmpty(t, judgeAnswers(seen).findings)
}

func TestAnEmergencyThatTheAPIServerDoesNotSeeIsAnError(t *testing.T) {
	stamped := corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{policy.StampAnnotation: "{}"}}}
	for name, test := range map[string]struct {
		judge  func(Installation) answer
		change func(*Installation)
		want   string
	}{
		"the gate is added":             {judgeGateInForce, func(*Installation) {}, "a dry-run creation of a Node returns behind the gate, nodekeep.dev/restoring"},
		"the webhook is called":         {judgeAnswers, func(*Installation) {}, "3 of 3 dry-run creations of a Node return with the webhook's stamp"},
		"some API servers call it":      {judgeAnswers, func(s *Installation) { s.NamedDryRuns = Found([]corev1.Node{{}, stamped}) }, "1 of 2 dry-run creations of a Node return with the webhook's stamp"},
		"what was asked is not known":   {judgeAnswers, func(s *Installation) { s.NamedDryRuns = NotKnown[[]corev1.Node](Unknown{Reason: "you may not"}) }, ""},
		"whether it gates is not known": {judgeGateInForce, func(s *Installation) { s.UnnamedDryRun = NotKnown[*corev1.Node](Unknown{Reason: "you may not"}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			declares(t, &seen)
			test.change(&seen)
			found := test.judge(seen).findings
			require.Len(t, found, 1)
			if test.want == "" {
				assert.Equal(t, SeverityUnknown, found[0].Severity)
				return
			}
			assert.Equal(t, Error, found[0].Severity)
			assert.Equal(t, "an emergency is declared, and the API server does not see it: "+test.want, found[0].Message)
			assert.Equal(t, []string{"nodekeep emergency"}, found[0].Commands)
		})
	}
}

func TestCommandsOfAnEmergencyNameTheNamespaceOnce(t *testing.T) {
	seen := healthy(t)
	declares(t, &seen)
	seen.Namespace = "elsewhere"
	commandsOf := func() []string { return resultOf(t, RunChecks(seen, nil), checkEmergency).Findings[0].Commands }
	assert.Equal(t, []string{"nodekeep emergency --end --dry-run -n elsewhere", "nodekeep emergency --end -n elsewhere"}, commandsOf())
	seen.EmergencyRole = Absent[*rbacv1.Role]()
	assert.Equal(t, []string{"nodekeep emergency --end -n elsewhere", "nodekeep emergency -n elsewhere"}, commandsOf())
}

func TestHalfOfAnEmergencyIsNone(t *testing.T) {
	for name, remove := range map[string]func(*Installation){
		"role/nodekeep-emergency":        func(s *Installation) { s.EmergencyBinding = Absent[*rbacv1.RoleBinding]() },
		"rolebinding/nodekeep-emergency": func(s *Installation) { s.EmergencyRole = Absent[*rbacv1.Role]() },
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			declares(t, &seen)
			remove(&seen)
			found := judgeEmergency(seen).findings
			require.Len(t, found, 1)
			assert.Equal(t, name, found[0].Object)
			assert.Contains(t, found[0].Message, "none is declared")
		})
	}
}

func TestAnEmergencyThatMayNotBeReadIsUnknown(t *testing.T) {
	seen := healthy(t)
	seen.EmergencyBinding = NotKnown[*rbacv1.RoleBinding](Unknown{Reason: "you may not get rolebindings"})
	found := judgeEmergency(seen).findings
	require.Len(t, found, 1)
	assert.Equal(t, SeverityUnknown, found[0].Severity)
}
