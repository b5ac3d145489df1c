package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/policy"
)

func withTaints(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", ResourceVersion: "7", Labels: map[string]string{"dedicated": "ci"}}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestNodesThatCarryTheGateAreFreedWhateverItsEffect(t *testing.T) {
	o := policy.Gate("example.com/gate")
	soft := corev1.Taint{Key: string(policy.DefaultGate), Effect: corev1.TaintEffectPreferNoSchedule}
	client := fake.NewClientset(withTaints("free"), withTaints("gated", policy.DefaultGate.Taint()), withTaints("other", o.Taint()), withTaints("soft", soft))
	for gate, want := range map[policy.Gate][]string{policy.DefaultGate: {"gated", "soft"}, o: {"other"}, "example.com/none": nil} {
		u := &nodeOpener{session: &session{Cluster: &cluster.Cluster{Client: client}, gate: gate}}
		gated, err := u.nodesToFree(t.Context(), u.gateRemoval(time.Time{}))
		require.NoError(t, err)
		assert.Equal(t, want, gated)
	}
}

func TestANodeMadeAfterGatingHadStoppedIsLate(t *testing.T) {
	stopped := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		created, stopped time.Time
		want             bool
	}{
		"made before":                    {stopped.Add(-time.Second), stopped, false},
		"made in that second":            {stopped, stopped, false},
		"made afterwards":                {stopped.Add(time.Second), stopped, true},
		"it is not known when that was":  {stopped, time.Time{}, false},
		"it is not known when it is new": {time.Time{}, stopped, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := withTaints("a")
			n.CreationTimestamp = metav1.NewTime(c.created)
			assert.Equal(t, c.want, createdAfter(n, c.stopped))
		})
	}
}

func TestADeniedCallNamesTheRightToTheOneObject(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource()
		denial := fmt.Errorf("User \"jane\" cannot %s resource %q in API group %q in the namespace %q", action.GetVerb(), resource.Resource, resource.Group, action.GetNamespace())
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), manifests.EmergencyName, denial)
	})
	u := &nodeOpener{session: &session{Cluster: &cluster.Cluster{Client: client, Namespace: DefaultNamespace}}}
	binding := u.declarationObjects()[0]
	for verb, call := range map[string]func() error{
		"delete": func() error { return u.delete(t.Context(), binding) },
		"create": func() error {
			return (&emergency{nodeOpener: *u}).create(t.Context(), binding, false, false, func() error {
				_, err := client.RbacV1().RoleBindings(DefaultNamespace).Create(t.Context(), &rbacv1.RoleBinding{}, metav1.CreateOptions{})
				return err
			})
		},
	} {
		t.Run(verb, func(t *testing.T) {
			var denied cluster.DeniedError
			require.ErrorAs(t, call(), &denied)
			want := doctor.Right{Verb: verb, Group: rbacv1.GroupName, Resource: "rolebindings", Namespace: DefaultNamespace}
			if verb != "create" { // no right to create is limited to a name
				want.Name = manifests.EmergencyName
			}
			assert.Equal(t, []doctor.Right{want}, denied.Missing)
		})
	}
}
