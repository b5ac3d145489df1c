package removal

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// nodekeep is the installation that all tests of this package share. Each test uses names of its own.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTestsOn(m, harness.Options{}, func(ctx context.Context, control *harness.Cluster) error {
		installation, err := harness.Install(ctx, control)
		if err != nil {
			return fmt.Errorf("install nodekeep: %w", err)
		}
		nodekeep = installation
		if err := nodekeep.ReapplyVerify(ctx); err != nil {
			return err
		}
		if err := nodekeep.ApplyCRDs(ctx, harness.KarpenterCRDs, harness.ClusterAPICRDs); err != nil {
			return err
		}
		return grantRemoval(ctx)
	}))
}

// grantRemoval grants what the chart grants where profiles use every kind of removal.
func grantRemoval(ctx context.Context) error {
	rights, name := nodekeep.Admin.RbacV1(), metav1.ObjectMeta{Name: "removal"}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "nodekeep-verify", Namespace: harness.Namespace}}
	_, err := rights.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"}},
		{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims"}, Verbs: []string{"get", "delete"}},
		{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"get", "patch"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rights.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "removal"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rights.Roles(verify.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{verify.LedgerMap}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rights.RoleBindings(verify.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: name, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "removal"},
	}, metav1.CreateOptions{})
	return err
}

// shipped are clients of the ServiceAccount that removes Nodes.
func shipped(t *testing.T) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-verify")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client, objects
}

func newRemover(t *testing.T) *remove.Remover {
	t.Helper()
	return remove.New(shipped(t))
}
