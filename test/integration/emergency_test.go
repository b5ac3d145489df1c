package integration

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const (
	unverifiedHere = "example.com/unverified:NoExecute"
	emergencyName  = "nodekeep-emergency"
	gateTaint      = string(policy.DefaultGate) + ":NoSchedule"
)

// brokenInstallation returns one of which no process runs, on a control plane of its own, with a profile of verification. Nodes wait.
func brokenInstallation(t *testing.T) *harness.Installation {
	t.Helper()
	current, err := nodekeep.InstallOn(t.Context(), harness.ForTest(t, harness.Options{}))
	require.NoError(t, err)
	current.TimeoutSeconds = harness.Patient
	require.NoError(t, current.ReapplyVerify(t.Context()))
	current.SetPolicy(t, policytest.Manifest("verify:\n  profiles:\n  - {name: all, taint: '"+unverifiedHere+"', checks: [{name: api, api: {}}]}\n"))
	current.WaitGating(t, true)
	current.Register(t, "gated")
	current.RegisterNode(t, tainted("unverified", unverifiedHere, "nodekeep.dev/unverified:NoSchedule", "tenant=blue:NoExecute"))
	require.Equal(t, []string{"gated", "unverified"}, current.GatedNodes(t))
	return current
}

// emergency runs the command and returns what it prints.
func emergency(t *testing.T, current *harness.Installation, args ...string) string {
	t.Helper()
	answer := current.Command(t, "", "", append([]string{"emergency", "--settle", "1s"}, args...)...)
	require.Equal(t, 0, answer.Code, answer.ErrOut)
	return answer.Out
}

// All processes are down, the NodePolicy cannot be used, and what was installed is applied again.
func TestAnEmergencyFreesEveryNodeOfABrokenInstallationAndHoldsUntilItIsEnded(t *testing.T) {
	current := brokenInstallation(t)
	plan := emergency(t, current, "--dry-run")
	assert.Regexp(t, `Nodes behind the gate: +2 \(gated, unverified\)`, plan)
	assert.Regexp(t, `Nodes behind a verification taint: +1 \(unverified\)`, plan)
	assert.Regexp(t, `RoleBinding +nodekeep-emergency +to be created`, plan)
	refused := current.Command(t, "", "n\n", "emergency")
	assert.Equal(t, 3, refused.Code)
	assert.Len(t, current.GatedNodes(t), 2, "nothing was changed")

	out := emergency(t, current, "--yes")
	for _, line := range []string{"Role nodekeep-emergency: created", "RoleBinding nodekeep-emergency: created", "new Nodes are no longer gated", "node gated: gate lifted", "node unverified: verification taint removed",
		"closed by nodekeep before: 2 (gated, unverified). None of them is closed by nodekeep now\nkept from all or some Pods by something else: 2 (gated: taint node.kubernetes.io/not-ready:NoSchedule, unverified: taint tenant=blue:NoExecute, taint node.kubernetes.io/not-ready:NoSchedule)\nthe emergency is declared: the API server gates no new Node until it is ended\nto end it: nodekeep emergency --end\n"} {
		assert.Contains(t, out, line)
	}
	assert.Empty(t, current.GatedNodes(t))
	assert.Equal(t, []string{"tenant=blue:NoExecute"}, harness.TaintsOf(current.Node(t, "unverified")), "nothing else goes")
	assert.Empty(t, harness.TaintsOf(current.Register(t, "later")), "new Nodes are not gated")

	require.NoError(t, current.Reapply(t.Context()))
	require.NoError(t, current.ReapplyVerify(t.Context()))
	time.Sleep(2 * time.Second)
	current.WaitGating(t, false)
	assert.Contains(t, emergency(t, current, "--yes"), "RoleBinding nodekeep-emergency: is there", "once more")

	t.Run("the processes hold no Node either", func(t *testing.T) {
		const unverified = "nodekeep.dev/unverified:NoSchedule" // the shipped account of verify may remove no other key
		current.SetPolicy(t, policytest.Manifest("verify:\n  profiles:\n  - {name: all, checks: [{name: api, api: {}}]}\n"))
		require.NoError(t, current.StartCapture(t.Context()))
		defer func() { assert.NoError(t, current.StopCapture()) }()
		require.NoError(t, current.StartVerify(t.Context()))
		defer func() { assert.NoError(t, current.StopVerify()) }()
		for _, process := range []string{"capture", "verify"} {
			require.InDelta(t, 1, harness.Series(t, current.MetricsURL(process), "nodekeep_policy_emergency"), 0, "known from the start")
		}
		current.RegisterNode(t, tainted("by-its-kubelet", gateTaint, unverified))
		opens := func(name string) {
			t.Helper()
			harness.Eventually(t, func() bool { return len(harness.TaintsOf(current.Node(t, name))) == 0 }, settles, 50*time.Millisecond, name)
		}
		opens("by-its-kubelet")
		assert.NotContains(t, current.Node(t, "by-its-kubelet").Labels, "nodekeep.dev/verified")

		for _, line := range []string{"list --waiting verification", "show later --verification", "list --waiting gate", "explain later"} {
			got := current.Command(t, "", "", strings.Fields(line)...)
			assert.Equal(t, 0, got.Code, line)
			assert.Contains(t, got.ErrOut, "An emergency was declared", line)
		}
		review := filepath.Join("..", "..", "webhook", "testdata", "base", "kubelet.json")
		out := current.Command(t, "", "", "explain", "--review", review)
		assert.Equal(t, 0, out.Code, out.ErrOut)
		assert.Contains(t, out.ErrOut, "An emergency was declared")
		assert.Contains(t, out.Out, "does not call the webhook for a new Node")
		doctor := current.Command(t, "", "", "doctor")
		assert.Contains(t, doctor.Out, "warning (emergency): rolebinding/nodekeep-emergency: an emergency was declared")
		assert.Contains(t, doctor.Out, "a dry-run creation of a Node returns without the gate; see emergency")
		denied := current.Command(t, "", "", "recheck", "later", "--yes")
		assert.Equal(t, 3, denied.Code)
		assert.Contains(t, denied.ErrOut, "during an emergency no Node is verified")

		// A client that deletes half of it ends it, for the API server and for the processes.
		current.MustKubectl(t, "-n", harness.Namespace, "delete", "role", emergencyName)
		current.WaitGating(t, true)
		harness.Eventually(t, func() bool { return harness.Series(t, current.MetricsURL("verify"), "nodekeep_policy_emergency") == 0 }, settles, 50*time.Millisecond)
		emergency(t, current, "--yes")
		current.WaitGating(t, false)
		harness.Eventually(t, func() bool { return harness.Series(t, current.MetricsURL("verify"), "nodekeep_policy_emergency") == 1 }, settles, 50*time.Millisecond)

		end := emergency(t, current, "--end", "--dry-run")
		assert.Regexp(t, `Open and not verified: +4 \(by-its-kubelet, gated, later, unverified\): they stay open. To check them: nodekeep recheck --all`, end)
		end = emergency(t, current, "--end", "--yes")
		assert.Contains(t, end, "the emergency is ended: nodekeep acts on new Nodes again\nopen and not verified: 4 (by-its-kubelet, gated, later, unverified): they stay open. To check them: nodekeep recheck --all")
		current.WaitGating(t, true)
		harness.Eventually(t, func() bool { return harness.Series(t, current.MetricsURL("verify"), "nodekeep_policy_emergency") == 0 }, settles, 50*time.Millisecond)
		for _, name := range []string{"gated", "later", "by-its-kubelet"} {
			assert.Empty(t, harness.TaintsOf(current.Node(t, name)), name)
		}
		current.Register(t, "afterwards")
		harness.Eventually(t, func() bool {
			return harness.Carries(current.Node(t, "afterwards"), unverified)
		}, settles, 50*time.Millisecond, "it waits for its checks")
	})
	for _, kind := range []string{"role", "rolebinding"} {
		assert.Empty(t, current.MustKubectl(t, "-n", harness.Namespace, "get", kind, emergencyName, "--ignore-not-found"))
	}
	assert.Contains(t, emergency(t, current, "--end", "--yes"), "no emergency is declared")
}

// Where every account may do everything, each has the right that declares an emergency. The cluster stays gated until the command is run, which deletes
// what gates.
func TestARightToEverythingIsNoEmergency(t *testing.T) {
	current := brokenInstallation(t)
	current.MustKubectl(t, "create", "clusterrolebinding", "everything", "--clusterrole=cluster-admin", "--group=system:serviceaccounts")
	harness.Eventually(t, func() bool {
		return strings.Contains(emergency(t, current, "--dry-run"), "cannot see an emergency")
	}, settles, 100*time.Millisecond)
	time.Sleep(2 * time.Second)
	current.WaitGating(t, true)

	out := emergency(t, current, "--yes")
	assert.Contains(t, out, "ServiceAccount nodekeep-capture may do everything")
	assert.Contains(t, out, "MutatingAdmissionPolicyBinding nodekeep-gate: deleted")
	assert.Contains(t, out, "the emergency is declared, and the API server gates no new Node now\nnot there: MutatingAdmissionPolicyBinding nodekeep-gate, ")
	assert.Empty(t, current.GatedNodes(t))
	current.WaitGating(t, false)
	end := emergency(t, current, "--end", "--dry-run")
	assert.Contains(t, end, "MutatingAdmissionPolicyBinding nodekeep-gate")
	ended := current.Command(t, "", "", "emergency", "--settle", "1s", "--end", "--yes")
	assert.Equal(t, 1, ended.Code, ended.ErrOut)
	assert.Contains(t, ended.Out, "the emergency is ended\nnot there: MutatingAdmissionPolicyBinding nodekeep-gate, ")
	assert.Contains(t, ended.ErrOut, "it is not proved that nodekeep acts on new Nodes again")
	require.NoError(t, current.Reapply(t.Context()))
	current.WaitGating(t, true)
	_, err := current.Admin.RbacV1().Roles(harness.Namespace).Get(t.Context(), emergencyName, metav1.GetOptions{})
	require.Error(t, err)
}

// Other clients may neither declare an emergency nor end it. Another admission policy that freezes one Node keeps no other Node closed.
func TestInAnEmergencyOneNodeThatIsFrozenKeepsNoOtherClosedAndNoTenantDeclaresOne(t *testing.T) {
	current := brokenInstallation(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Namespace: metav1.NamespaceDefault}}
	_, err := current.Admin.CoreV1().ServiceAccounts(account.Namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	tenant, err := current.Cluster.ServiceAccount(t.Context(), account.Namespace, account.Name)
	require.NoError(t, err)
	anonymous := rest.AnonymousClientConfig(tenant)
	hostile := map[string]*rest.Config{"a kubelet": current.Cluster.Kubelet("gated"), "a tenant's Pod": tenant, "a Pod without identity": anonymous}
	deny := func(declared bool) {
		t.Helper()
		for name, config := range hostile {
			client, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			rbac := client.RbacV1()
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: emergencyName}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"nodekeep.dev"}, Resources: []string{"closing"}, Verbs: []string{"stop"}}}}
			_, err = rbac.Roles(harness.Namespace).Create(t.Context(), role, metav1.CreateOptions{})
			require.Error(t, err, "%s declares one", name)
			binding := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: emergencyName}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: emergencyName},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "nodekeep-capture", Namespace: harness.Namespace}},
			}
			_, err = rbac.RoleBindings(harness.Namespace).Create(t.Context(), binding, metav1.CreateOptions{})
			require.Error(t, err, "%s declares one", name)
			require.Error(t, rbac.Roles(harness.Namespace).Delete(t.Context(), emergencyName, metav1.DeleteOptions{}), "%s ends one", name)
			require.Error(t, rbac.RoleBindings(harness.Namespace).Delete(t.Context(), emergencyName, metav1.DeleteOptions{}), "%s ends one", name)
		}
		current.WaitGating(t, !declared)
	}
	deny(false)

	lift := current.Deny(t, "one-node-is-frozen", harness.Denial{Operation: admissionregistrationv1.Update, Exception: "object.metadata.name != 'gated'", Message: "frozen by another team"}, func() bool {
		_, err := current.Admin.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), "gated", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	answer := current.Command(t, "", "", "emergency", "--settle", "1s", "--yes")
	assert.Equal(t, 1, answer.Code, "not all could be done")
	assert.Contains(t, answer.ErrOut, "frozen by another team")
	assert.Contains(t, answer.ErrOut, "gated")
	assert.Equal(t, []string{"gated"}, current.GatedNodes(t), "only the one that is frozen")
	assert.Equal(t, []string{"tenant=blue:NoExecute"}, harness.TaintsOf(current.Node(t, "unverified")))
	deny(true)

	lift()
	emergency(t, current, "--yes")
	assert.Empty(t, current.GatedNodes(t))
}
