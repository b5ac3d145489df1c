package cli

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

func TestAReleaseRemovesWhatItSaysAndAddsTheTaintsThatNothingElseWouldAddLater(t *testing.T) {
	const manifest = "taints: {register: [{taint: \"example.com/new:NoSchedule\"}]}\nverify:\n  profiles:\n  - {name: all, checks: [{name: api, api: {}}]}\n"
	gate := policy.DefaultGate.Taint()
	unverified := corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}
	for name, row := range map[string]struct {
		taints  []corev1.Taint
		stamped bool // a webhook has registered the Node
		forged  bool // a kubelet says so, while the guard policies are not in force
		old     bool // the annotation names a taint of a key that the policy had
		from    string
		left    []string // keys of taints
		event   bool
		err     string
	}{
		"a gated and unverified Node":                               {taints: []corev1.Taint{gate, unverified}, stamped: true, event: true},
		"from the gate alone":                                       {taints: []corev1.Taint{gate, unverified}, stamped: true, from: waitingGate, left: []string{verify.Taint}},
		"from verification alone":                                   {taints: []corev1.Taint{gate, unverified}, stamped: true, from: waitingVerification, left: []string{string(policy.DefaultGate)}, event: true},
		"before its registration taints came":                       {taints: []corev1.Taint{gate}, left: []string{"example.com/new"}, event: true},
		"before its registration taints came, and the gate alone":   {taints: []corev1.Taint{gate}, from: waitingGate, left: []string{"example.com/new", verify.Taint}},
		"a stamp of the kubelet's own, and the gate alone":          {taints: []corev1.Taint{gate}, stamped: true, forged: true, from: waitingGate, left: []string{"example.com/new", verify.Taint}},
		"a registered Node whose taints a client removed, is gated": {taints: []corev1.Taint{gate}, stamped: true},
		"gated, with a taint of a key that the policy had": {
			taints: []corev1.Taint{gate, {Key: "example.com/old", Effect: corev1.TaintEffectNoSchedule}}, stamped: true, old: true, left: []string{"example.com/old"}, err: "node/a stays closed: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := withTaints("a", row.taints...)
			node.Annotations = map[string]string{}
			if row.stamped {
				node.Annotations[policy.StampAnnotation] = "{}"
			}
			if row.forged {
				fields := `{"f:metadata":{"f:annotations":{"f:` + policy.StampAnnotation + `":{}}}}`
				node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}}
			}
			if row.old {
				node.Annotations[verify.Annotation] = verify.Progress{Round: 1, Attempts: 1, Failed: 1, Profile: "all", Taint: "example.com/old"}.String()
			}
			e, client, out := emergencyOn(t, node)
			var err error
			e.Records, err = store.NewConfigMaps(client, e.Namespace, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			p, err := policy.Load([]byte(policytest.Manifest(manifest)), policy.DefaultGate)
			require.NoError(t, err)
			e.inputs.Policy = p
			o := &releaseOptions{options: &options{}, from: row.from}
			plan, err := o.plan(t.Context(), e.session, "a")
			require.NoError(t, err)
			require.NotNil(t, plan, out)
			err = plan.apply(t.Context())
			if row.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.err)
			}
			changed, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			var left []string
			for _, taint := range changed.Spec.Taints {
				left = append(left, taint.Key)
			}
			assert.ElementsMatch(t, row.left, left)
			events, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Equal(t, row.event, len(events.Items) == 1)
			assert.Equal(t, row.event, verify.ParseProgress(changed.Annotations[verify.Annotation]).Last != nil)
		})
	}
}

func TestAReleaseThatAnotherAdmissionPolicyDeniesSaysSoAndClaimsNothing(t *testing.T) {
	e, client, out := emergencyOn(t, withTaints("a", corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}))
	p, err := policy.Load([]byte(policytest.Manifest("verify:\n  profiles:\n  - {name: all, checks: [{name: api, api: {}}]}\n")), policy.DefaultGate)
	require.NoError(t, err)
	e.inputs.Policy = p
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "a", errors.New("denied by another team"))
	})
	plan, err := (&releaseOptions{options: &options{}, from: waitingVerification}).plan(t.Context(), e.session, "a")
	require.NoError(t, err)
	require.ErrorContains(t, plan.apply(t.Context()), "denied by another team")
	assert.NotContains(t, out.String(), "released")
	events, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, events.Items)
}
