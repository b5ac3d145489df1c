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
)

// declares has an emergency be declared, two hours ago.
func declares(t *testing.T, seen *Seen) {
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
	assert.Contains(t, found[0].What, "declared 120m ago")
	assert.Contains(t, found[0].Commands, "nodekeep -n nodekeep-system emergency --end")

	// What it switches off is no error of its own.
	seen.Unnamed, seen.Named = Found(&corev1.Node{}), Found([]corev1.Node{{}})
	assert.Empty(t, judgeGateInForce(seen).findings)
	assert.Empty(t, judgeAnswers(seen).findings)
	seen.EmergencyRole = Absent[*rbacv1.Role]()
	assert.NotEmpty(t, judgeGateInForce(seen).findings)
	assert.NotEmpty(t, judgeAnswers(seen).findings)
}

func TestHalfOfAnEmergencyIsNone(t *testing.T) {
	for name, remove := range map[string]func(*Seen){
		"role/nodekeep-emergency":        func(s *Seen) { s.EmergencyBinding = Absent[*rbacv1.RoleBinding]() },
		"rolebinding/nodekeep-emergency": func(s *Seen) { s.EmergencyRole = Absent[*rbacv1.Role]() },
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			declares(t, &seen)
			remove(&seen)
			found := judgeEmergency(seen).findings
			require.Len(t, found, 1)
			assert.Equal(t, name, found[0].Object)
			assert.Contains(t, found[0].What, "none is declared")
		})
	}
}

func TestAnEmergencyThatMayNotBeReadIsUnknown(t *testing.T) {
	seen := healthy(t)
	seen.EmergencyBinding = NotKnown[*rbacv1.RoleBinding](Unknown{Why: "you may not get rolebindings"})
	found := judgeEmergency(seen).findings
	require.Len(t, found, 1)
	assert.Equal(t, Lacking, found[0].Severity)
}
