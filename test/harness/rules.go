package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// RulesInForce waits until the webhook knows that its rules for labels are in force. The webhook must have read the policy
// ([Installation.SetPolicy]). Until then its rules only add labels to Nodes that register.
func (i *Installation) RulesInForce(t testing.TB) {
	t.Helper()
	served := func(series string) float64 { return Series(t, i.MetricsURL("webhook"), series) }
	require.Eventually(t, func() bool {
		return served("nodekeep_webhook_rules_held") == 0 && served(`nodekeep_webhook_certificate_timestamp_seconds{bound="not_after"}`) > 0 // the webhook answers
	}, Settles, 20*time.Millisecond)
}

// AcceptRules accepts the rules for labels of the NodePolicy, as an operator does where capture holds them.
func (i *Installation) AcceptRules(t testing.TB) {
	t.Helper()
	p, err := policy.Load([]byte(i.Policy(t)), policy.DefaultGate)
	require.NoError(t, err)
	data := map[string]string{store.RulesAccepted: p.RulesHash()}
	maps := i.Admin.CoreV1().ConfigMaps(Namespace)
	accept := func() error {
		_, err := maps.Patch(t.Context(), store.AcceptedConfigMap, types.MergePatchType, MustJSON(t, map[string]any{"data": data}), metav1.PatchOptions{FieldManager: "nodekeep-cli"})
		return err
	}
	if err = accept(); apierrors.IsNotFound(err) {
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.AcceptedConfigMap}, Data: data}, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) { // capture was faster
		err = accept()
	}
	require.NoError(t, err)
}
