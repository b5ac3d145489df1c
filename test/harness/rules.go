package harness

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

// AcceptRules accepts the rules for labels of the policy file, as an operator does where capture holds them.
func (i *Installation) AcceptRules(t testing.TB) {
	t.Helper()
	file, err := os.ReadFile(i.PolicyFile)
	require.NoError(t, err)
	p, err := policy.Load(file, policy.DefaultGate)
	require.NoError(t, err)
	const name = "nodekeep-rules"
	data := map[string]string{"accepted": p.RulesHash()}
	maps := i.Admin.CoreV1().ConfigMaps(Namespace)
	_, err = maps.Patch(t.Context(), name, types.MergePatchType, MustJSON(t, map[string]any{"data": data}), metav1.PatchOptions{FieldManager: "nodekeep-cli"})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	}
	require.NoError(t, err)
}
