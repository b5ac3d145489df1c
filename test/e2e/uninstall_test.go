//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

func leavesNoNodeGated(t *testing.T) {
	gated, err := on.gated(t.Context())
	require.NoError(t, err)
	k, _ := known(t, "uninstalled", ordinary())
	other := newKubelet(t, "afterwards")
	// Nobody can complete it: both are down.
	for _, name := range []string{webhookName, captureName} {
		_, err := on.scale(t.Context(), name, 0)
		require.NoError(t, err)
	}
	startedGated(t, k)
	remove(t, k.name)
	require.True(t, behindGate(k.register(t)))
	records := ownRecords(t)

	out, err := on.uninstall(t.Context())
	require.NoError(t, err)
	t.Log(out)
	node, err := read(t, k.name)
	require.NoError(t, err)
	assert.False(t, behindGate(node), "the uninstall frees Nodes that nobody can complete: %v", node.Spec.Taints)
	if gated {
		assert.False(t, behindGate(other.register(t)), "nothing gates any more")
	}
	nodes, err := on.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range nodes.Items {
		assert.False(t, policy.DefaultGate.On(node.Spec.Taints), "node %s is behind the gate", node.Name)
	}
	assert.Equal(t, records, ownRecords(t), "the records stay")
	left, err := on.nodekeeps(t.Context())
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Empty(t, remains(t.Context()), "nothing of the release is left")
}

// remains names what carries the chart's label, but for records.
func remains(ctx context.Context) (left []string) {
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep"}
	add := func(kind string, count int, err error) {
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", kind, err))
		} else if count > 0 {
			left = append(left, fmt.Sprintf("%s: %d", kind, count))
		}
	}
	core, rbac := on.admin.CoreV1(), on.admin.RbacV1()
	pods, err := core.Pods("").List(ctx, options)
	add("pods", len(pods.Items), err)
	services, err := core.Services("").List(ctx, options)
	add("services", len(services.Items), err)
	secrets, err := core.Secrets("").List(ctx, options)
	add("secrets", len(secrets.Items), err)
	accounts, err := core.ServiceAccounts("").List(ctx, options)
	add("service accounts", len(accounts.Items), err)
	jobs, err := on.admin.BatchV1().Jobs("").List(ctx, options)
	add("jobs", len(jobs.Items), err)
	roles, err := rbac.Roles("").List(ctx, options)
	add("roles", len(roles.Items), err)
	bindings, err := rbac.RoleBindings("").List(ctx, options)
	add("role bindings", len(bindings.Items), err)
	clusterRoles, err := rbac.ClusterRoles().List(ctx, options)
	add("cluster roles", len(clusterRoles.Items), err)
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, options)
	add("cluster role bindings", len(clusterBindings.Items), err)
	schemas, err := on.admin.FlowcontrolV1().FlowSchemas().List(ctx, options)
	add("flow schemas", len(schemas.Items), err)
	policies, err := on.admin.NetworkingV1().NetworkPolicies("").List(ctx, options)
	add("network policies", len(policies.Items), err)
	budgets, err := on.admin.PolicyV1().PodDisruptionBudgets("").List(ctx, options)
	add("disruption budgets", len(budgets.Items), err)
	return left
}

func goesOnWithItsRecords(t *testing.T) {
	k := newKubelet(t, "uninstalled")
	// Deleted while nobody looks.
	remove(t, k.name)
	require.NoError(t, on.upgrade(t.Context(), on.baseValues()))
	require.NoError(t, on.called(t.Context()))
	require.Empty(t, ordinary().lacks(k.register(t)), "the records of before the uninstall count")
	whole(t, k.name, ordinary())
}
