package examine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/manifests"
)

// examining returns an examination whose dry runs the API server answers with an error.
func examining(answer error) *examination {
	client := fake.NewClientset()
	client.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, answer
	})
	return &examination{
		Cluster:      &cluster.Cluster{Config: &rest.Config{Host: "https://there"}, Client: client, Namespace: manifests.Namespace, Now: time.Now},
		dryRunClient: client, options: Options{Timeout: time.Second},
	}
}

func TestWhatCannotBeReadIsNotKnownWithItsReason(t *testing.T) {
	forbidden := func(reason string) error {
		return apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New(reason))
	}
	for name, c := range map[string]struct {
		answer  error
		reason  string
		remedy  string
		command string
	}{
		"a right is missing": {
			forbidden(`User "jane" cannot create resource "nodes" in API group "" at the cluster scope`),
			"you may not create nodes in the whole cluster", "An administrator can grant it:", "kubectl create clusterrolebinding nodekeep-operator-jane --clusterrole=nodekeep-operator --user=jane",
		},
		"a policy refuses such Nodes": {
			forbidden(`ValidatingAdmissionPolicy 'strict' with binding 'all' denied request: no zone`),
			"validatingadmissionpolicy/strict denies the dry-run creation of a Node", "Exempt Nodes named", "",
		},
		"a webhook refuses such Nodes": {
			apierrors.NewBadRequest(`admission webhook "strict.example.com" denied the request: no zone`),
			"admission webhook strict.example.com denies the dry-run creation of a Node", "Exempt Nodes named", "",
		},
		"something refuses such Nodes that the answer does not name": {
			forbidden("not here"), "the API server refuses the dry-run creation of a Node", "Exempt Nodes named", "",
		},
		"there is no answer in time": {fmt.Errorf("post: %w", context.DeadlineExceeded), "there was no answer within 1s", "with a longer --timeout", ""},
		"there is no API server":     {errors.New("connection refused"), "the API server at https://there cannot be reached", "Try again.", ""},
		"the API server has a fault": {apierrors.NewInternalError(errors.New("etcd")), "etcd", "Try again.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := examining(c.answer)
			readInto(e, &e.seen.UnnamedDryRun, e.NodesRight("create"), e.dryRunUnnamed)(t.Context())
			assert.False(t, e.seen.UnnamedDryRun.Found || e.seen.UnnamedDryRun.Absent)
			unknown := e.seen.UnnamedDryRun.Unknown
			assert.Contains(t, unknown.Reason, c.reason)
			assert.Contains(t, unknown.Text, c.remedy)
			if c.command != "" {
				assert.Contains(t, unknown.Commands, c.command)
			}
		})
	}
}

func TestAnObjectThatIsNotThereIsKnownToBeAbsent(t *testing.T) {
	e := examining(nil)
	getInto(e, &e.seen.NamespaceObject, e.right("get", "", "namespaces"), e.Client.CoreV1().Namespaces(), e.Namespace)(t.Context())
	assert.Equal(t, doctor.Absent[*corev1.Namespace](), e.seen.NamespaceObject)

	_, err := e.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	getInto(e, &e.seen.NamespaceObject, e.right("get", "", "namespaces"), e.Client.CoreV1().Namespaces(), e.Namespace)(t.Context())
	assert.True(t, e.seen.NamespaceObject.Found)
}
