package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// On a control plane of its own, of whose nodekeep neither process runs: Nodes stay gated.
func TestUninstalling(t *testing.T) {
	current, err := nodekeep.InstallOn(t.Context(), harness.ForTest(t, harness.Options{}))
	require.NoError(t, err)
	current.TimeoutSeconds = harness.Patient
	current.WaitGating(t, true)
	t.Run("says what it may not do", func(t *testing.T) { uninstallingSaysWhatItMayNotDo(t, current) })
	t.Run("shows a plan and asks", func(t *testing.T) { uninstallingShowsAPlanAndAsks(t, current) })
	t.Run("lets capture complete the Nodes behind the gate first", func(t *testing.T) { uninstallingLetsCaptureCompleteNodesFirst(t, current) })
	require.NoError(t, current.Reapply(t.Context()))
	current.WaitGating(t, true)
	t.Run("leaves no Node behind the gate and forgets nothing", func(t *testing.T) { uninstallingLeavesNoNodeBehindTheGate(t, current) })
}

// uninstall runs the command and returns what it prints.
func uninstall(t *testing.T, current *harness.Installation, args ...string) string {
	t.Helper()
	answer := current.Command(t, "", "", append([]string{"uninstall", "--yes"}, args...)...)
	require.Equal(t, 0, answer.Code, answer.ErrOut)
	return answer.Out
}

func uninstallingLeavesNoNodeBehindTheGate(t *testing.T, current *harness.Installation) {
	client := current.Admin.CoreV1()
	kubelets := registerAllTheWhile(t, current)
	harness.Eventually(t, func() bool { return len(current.GatedNodes(t)) > 5 }, settles, 50*time.Millisecond)
	maintained := current.RegisterNode(t, tainted("maintained", "maintenance=disk:NoExecute"))
	stopChanging := changeAllTheWhile(t, current, "maintained")
	for _, name := range []string{"node.left-1", store.AcceptedConfigMap, inventories.InventoryName} {
		_, err := client.ConfigMaps(harness.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) { // capture may have been faster
			require.NoError(t, err)
		}
	}
	tenant := harness.TaintOf("tenant=blue:NoExecute")
	current.RegisterNode(t, tainted("unverified", "example.com/unverified:NoExecute", "tenant=blue:NoExecute", "nodekeep.dev/unverified:NoSchedule"))
	current.SetPolicy(t, policytest.Manifest("verify:\n  profiles:\n"+
		"  - {name: all, taint: 'example.com/unverified:NoExecute', checks: [{name: api, api: {}}]}\n"))

	for _, kind := range []string{"role", "rolebinding"} { // of an emergency that is not ended, so that verify closes no Node again
		current.MustKubectl(t, "-n", harness.Namespace, "create", kind, "nodekeep-emergency", map[string]string{"role": "--verb=get", "rolebinding": "--role=nodekeep-emergency"}[kind], map[string]string{"role": "--resource=pods", "rolebinding": "--serviceaccount=" + harness.Namespace + ":nodekeep-verify"}[kind])
	}

	out := uninstall(t, current, "--settle", "1s", "--patience", "0s")
	stopChanging()
	registered := kubelets()
	for _, line := range []string{
		"MutatingAdmissionPolicyBinding nodekeep-gate: deleted", "RoleBinding nodekeep-gate: deleted", "MutatingWebhookConfiguration nodekeep: deleted",
		"new Nodes are no longer gated", "node maintained: gate lifted\n", "no Node is behind the gate;",
		"MutatingAdmissionPolicyBinding nodekeep-strip: deleted", "MutatingAdmissionPolicy nodekeep-strip: deleted",
		"ValidatingAdmissionPolicyBinding nodekeep-guard: deleted", "ValidatingAdmissionPolicy nodekeep-guard: deleted",
		"ConfigMap nodekeep-inventory: deleted", "Stays: the emergency; once nodekeep is deleted, end it: kubectl -n nodekeep-system delete rolebinding,role nodekeep-emergency\n", "node unverified: verification taint removed\n",
	} {
		assert.Contains(t, out, line)
	}
	for _, name := range governance.PolicyNames() {
		assert.Contains(t, out, "ValidatingAdmissionPolicyBinding "+name+": deleted")
		assert.Contains(t, out, "ValidatingAdmissionPolicy "+name+": deleted")
	}
	t.Logf("%d Nodes registered meanwhile, %d were freed", registered, strings.Count(out, ": gate lifted"))
	assert.Empty(t, current.GatedNodes(t))
	assert.Equal(t, policy.DefaultGate.RemoveFrom(maintained.Spec.Taints), current.Node(t, "maintained").Spec.Taints, "nothing but the gate goes")
	verified := current.Node(t, "unverified").Spec.Taints
	assert.Contains(t, verified, tenant)
	for _, taint := range verified {
		assert.NotContains(t, taint.Key, "unverified", "the taints of verification go, of the policy and the default one")
	}

	current.MustKubectl(t, "-n", harness.Namespace, "delete", "rolebinding,role", "nodekeep-emergency") // as it says
	reread := uninstall(t, current, "--settle", "0s")
	assert.NotContains(t, reread, "emergency")
	assert.Contains(t, reread, "RoleBinding nodekeep-gate: is not there")
	assert.Contains(t, reread, "0 Nodes were freed")

	// As `make uninstall` goes on.
	current.MustKubectl(t, "delete", "--ignore-not-found", "-f", harness.Manifest())
	left, err := harness.Left(t.Context(), current.Cluster)
	require.NoError(t, err)
	assert.Empty(t, left)
	_, err = client.ConfigMaps(harness.Namespace).Get(t.Context(), "node.left-1", metav1.GetOptions{})
	assert.NoError(t, err, "records stay until an operator deletes them")
}

// capture completes a Node before it frees it, so it is given the time to do so.
func uninstallingLetsCaptureCompleteNodesFirst(t *testing.T, current *harness.Installation) {
	require.NoError(t, current.StartCapture(t.Context()))
	const name = "completed-last"
	current.RegisterRecorded(t, name, map[string]string{worker: ""})
	require.NoError(t, current.StopCapture())
	current.DeleteNode(t, name)
	current.Register(t, name)
	require.Equal(t, []string{name}, current.GatedNodes(t))

	path := filepath.Join(t.TempDir(), "uninstall")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	command := exec.CommandContext(t.Context(), current.Binary(), "uninstall", "--yes", "--kubeconfig", current.AdminKubeconfig(), "--settle", "0s", "--patience", "5m")
	command.Stdout, command.Stderr = file, file
	require.NoError(t, command.Start())
	printed := func() string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(content)
	}
	require.Eventually(t, func() bool { return strings.Contains(printed(), "1 Node behind the gate; capture has 5m0s") }, settles, 20*time.Millisecond)
	require.NoError(t, current.StartCapture(t.Context()))
	defer func() { assert.NoError(t, current.StopCapture()) }()
	require.NoError(t, command.Wait(), printed())
	assert.Contains(t, printed(), "0 Nodes were freed here")
	node := current.Node(t, name)
	assert.False(t, harness.Gated(node))
	assert.Contains(t, node.Labels, worker)
}

func uninstallingSaysWhatItMayNotDo(t *testing.T, current *harness.Installation) {
	current.Register(t, "left")
	config, err := current.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-webhook")
	require.NoError(t, err)
	kubeconfig := t.TempDir() + "/kubeconfig"
	require.NoError(t, harness.WriteKubeconfig(kubeconfig, config))
	refused := current.Command(t, kubeconfig, "", "uninstall", "--yes")
	assert.Equal(t, 3, refused.Code, "nothing was done")
	for _, subject := range []string{
		"delete mutatingadmissionpolicybindings.admissionregistration.k8s.io in the whole cluster", "delete rolebindings.rbac.authorization.k8s.io in namespace nodekeep-system",
		"delete mutatingwebhookconfigurations.admissionregistration.k8s.io in the whole cluster", "list nodes in the whole cluster",
	} {
		assert.Contains(t, refused.ErrOut, "you may not "+subject)
	}
	assert.Equal(t, []string{"left"}, current.GatedNodes(t))
	current.DeleteNode(t, "left")
}

// changeAllTheWhile changes the Node, so that writes of others meet conflicts, until stop is called.
func changeAllTheWhile(t *testing.T, current *harness.Installation, name string) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			current.Label(t, name, map[string]string{"n": fmt.Sprint(n)})
		}
	})
	stop = sync.OnceFunc(func() { close(done); group.Wait() })
	t.Cleanup(stop)
	return stop
}

// registerAllTheWhile has kubelets register Nodes until stop is called, which returns how many.
func registerAllTheWhile(t *testing.T, current *harness.Installation) (stop func() int) {
	t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	registered := 0
	group.Go(func() {
		for ; ; registered++ {
			select {
			case <-done:
				return
			case <-time.After(30 * time.Millisecond):
			}
			current.Register(t, fmt.Sprintf("joining-%d", registered))
		}
	})
	stop = sync.OnceValue(func() int { close(done); group.Wait(); return registered })
	t.Cleanup(func() { stop() })
	return stop
}

func uninstallingShowsAPlanAndAsks(t *testing.T, current *harness.Installation) {
	current.RegisterNode(t, tainted("planned", "nodekeep.dev/unverified:NoSchedule"))
	assert.NotContains(t, current.Command(t, "", "", "uninstall", "--dry-run").Out, "Leases", "no process has run yet")
	leases := current.Admin.CoordinationV1().Leases(harness.Namespace)
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: capture.LeaseName}}, metav1.CreateOptions{})
	require.NoError(t, err)
	shows := func(plan string) {
		t.Helper()
		assert.Regexp(t, `Nodes behind the gate: +1 \(planned\)`, plan)
		assert.Regexp(t, `Nodes behind a verification taint: +1 \(planned\)`, plan)
		assert.Regexp(t, `RoleBinding +nodekeep-gate +to be deleted\n`, plan)
		assert.Regexp(t, `ConfigMap +nodekeep-inventory +not there\n`, plan)
		assert.Regexp(t, `Leases that stay: +nodekeep-capture in namespace nodekeep-system;`, plan)
		assert.Equal(t, []string{"planned"}, current.GatedNodes(t), "nothing is changed")
		current.MustKubectl(t, "-n", harness.Namespace, "get", "rolebinding/nodekeep-gate") // nothing is deleted
	}
	dry := current.Command(t, "", "", "uninstall", "--dry-run")
	assert.Equal(t, 0, dry.Code, dry.ErrOut)
	assert.Equal(t, "Nothing was changed (dry run).\n", dry.ErrOut)
	shows(dry.Out)
	for _, typed := range []string{"", "n\n"} {
		refused := current.Command(t, "", typed, "uninstall")
		assert.Equal(t, 3, refused.Code)
		assert.Empty(t, refused.Out)
		assert.Contains(t, refused.ErrOut, "Uninstall? [y/N] nothing was changed")
		shows(refused.ErrOut)
	}
	context := current.Command(t, "", "", "uninstall", "--context", "missing")
	assert.Equal(t, 2, context.Code)
	assert.Contains(t, context.ErrOut, `context "missing" does not exist`)
	o := current.Command(t, "", "", "uninstall", "--dry-run", "--as", "nobody-known")
	assert.Equal(t, 3, o.Code)
	assert.Contains(t, o.ErrOut, "you may not get configmaps")
	agreed := current.Command(t, "", "y\n", "uninstall", "--settle", "0s", "--patience", "0s")
	assert.Equal(t, 0, agreed.Code, agreed.ErrOut)
	assert.Contains(t, agreed.Out, "RoleBinding nodekeep-gate: deleted")
	assert.Empty(t, current.GatedNodes(t))
	current.DeleteNode(t, "planned")
	require.NoError(t, leases.Delete(t.Context(), capture.LeaseName, metav1.DeleteOptions{}), "it stays")
	require.NoError(t, current.Reapply(t.Context()))
	current.WaitGating(t, true)
}
