package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/report"
	"nodekeep.dev/nodekeep/selection"
)

func inCluster(objects ...runtime.Object) (*Cluster, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	return &Cluster{Config: &rest.Config{Host: "fake"}, Client: client, Namespace: manifests.Namespace}, client
}

func TestAllUsesReadsEveryKindThatPackageSelectionKnows(t *testing.T) {
	c, _ := inCluster()
	var kinds []string
	for _, item := range c.selectingKinds() {
		kinds = append(kinds, item.kind)
	}
	assert.ElementsMatch(t, selection.Kinds(), kinds)
}

func TestAllUsesNamesTheKindsThatMayNotBeRead(t *testing.T) {
	spec := corev1.PodSpec{NodeSelector: map[string]string{"k": "x"}}
	c, client := inCluster(
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "ds"}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "rc"}, Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"k": "x"}}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "sc"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "pod"}, Spec: spec})
	client.PrependReactor("list", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "",
			assert.AnError)
	})
	seen := func() (names []string, missing []report.NotRead, err error) {
		missing, err = c.ListUses(context.Background(), func(uses []selection.Use) { names = append(names, uses[0].String()) })
		return names, missing, err
	}
	_, _, err := seen()
	require.Error(t, err, "what no authorizer says is no missing right")

	client.PrependReactor("list", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "",
			errors.New(`User "u" cannot list resource "daemonsets" in API group "apps" at the cluster scope`))
	})
	names, missing, err := seen()
	require.NoError(t, err)
	assert.Equal(t, []string{"RuntimeClass/rc", "Pod/b/pod"}, names)
	require.Len(t, missing, 1)
	assert.Equal(t, "DaemonSet", missing[0].Kind)
	assert.Contains(t, missing[0].Reason, "kubectl create clusterrole")
}
