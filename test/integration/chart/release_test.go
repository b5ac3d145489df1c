package chart

import (
	"context"
	"log/slog"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"nodekeep.dev/nodekeep/certs"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// Both ways in which Helm writes: it keeps to the way of the first install.
func TestAReleaseFromItsInstallToItsUninstall(t *testing.T) {
	for name, serverSide := range map[string]string{"by server-side apply": "true", "by patches of the client": "false"} {
		t.Run(name, func(t *testing.T) {
			withoutPolicies(t)
			r := release{namespace: "release-" + serverSide, serverSide: serverSide}
			notes, err := r.tryHelm(t, "install", "nodekeep", harness.Chart(), "--create-namespace", "--server-side="+serverSide)
			require.NoError(t, err)
			gatingComesToBe(t, true)
			r.isFreedInAnEmergency(t, string(notes))
			kept := r.live(t)
			r.losesNothingByUpgrades(t, kept)
			r.isTheOnlyOne(t)
			r.uninstall(t)
			_, err = admin.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "node.worker-1", metav1.GetOptions{})
			require.NoError(t, err, "records stay until an operator deletes them")

			// Nothing that the first release left makes the second one fail, and its gate works.
			r.helm(t, "install", "nodekeep", harness.Chart(), "--server-side="+serverSide)
			gatingComesToBe(t, true)
			r.helm(t, "uninstall", "nodekeep", "--no-hooks")
		})
	}
}

// release is nodekeep installed in a namespace.
type release struct{ namespace, serverSide string }

func (r release) helm(t *testing.T, args ...string) {
	t.Helper()
	_, err := r.tryHelm(t, args...)
	require.NoError(t, err)
}

func (r release) tryHelm(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	return harness.RunHelm(t.Context(), append(args, "--namespace", r.namespace, "--kubeconfig", kubeconfig)...)
}

// upgrade returns what Helm prints.
func (r release) upgrade(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.tryHelm(t, append([]string{"upgrade", "nodekeep", harness.Chart(), "--reset-values", "--server-side=" + r.serverSide}, args...)...)
	require.NoError(t, err)
	return string(out)
}

// gatingComesToBe waits until a Node that registers is gated, or is not.
func gatingComesToBe(t *testing.T, want bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && harness.Gated(node) == want
	}, settles, 100*time.Millisecond)
}

// isFreedInAnEmergency types what Helm has printed at the installation. Upgrades do not end the emergency.
func (r release) isFreedInAnEmergency(t *testing.T, notes string) {
	t.Helper()
	nodes := admin.CoreV1().Nodes()
	for _, name := range []string{"stuck-1", "stuck-2"} {
		_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		defer func() {
			assert.NoError(t, nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
		}()
	}
	command := regexp.MustCompile(`(?m)^  nodekeep (.* emergency)$`).FindStringSubmatch(notes)
	require.NotNil(t, command, notes)
	assert.NotContains(t, notes, "AN EMERGENCY")
	typed := func(further ...string) {
		t.Helper()
		args := append(append(strings.Fields(command[1]), "--kubeconfig", kubeconfig, "--yes"), further...)
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	r.notesSeeNoEmergencyInObjectsThatDeclareNone(t)
	typed("--settle", "1s")
	for _, name := range []string{"stuck-1", "stuck-2"} {
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.False(t, policy.DefaultGate.Present(node.Spec.Taints), name)
	}
	gatingComesToBe(t, false)
	for _, args := range [][]string{nil, set("log.level=debug")} {
		notes := r.upgrade(t, args...)
		assert.Contains(t, notes, "AN EMERGENCY IS DECLARED, and is not ended. To end it:\n\n  nodekeep -n "+r.namespace+" emergency --end\n\nOnce the emergency is ended, new Nodes register behind the taint")
		assert.Regexp(t, `\n  nodekeep \S+ \S+ emergency --end\n`, notes)
		assert.NotContains(t, notes, "If nodekeep itself is broken")
		time.Sleep(2 * time.Second) // the API server follows what is applied within a second
		gatingComesToBe(t, false)
	}
	assert.Contains(t, r.upgrade(t, "--dry-run=server", "--set=verify.enabled=true,verify.checksNamespace=nodekeep-dry"), "\nOnce the emergency is ended, new Nodes that a verification profile selects wait behind its taint")
	typed("--end")
	gatingComesToBe(t, true)
}

// notesSeeNoEmergencyInObjectsThatDeclareNone has objects with the names of those that declare an emergency.
func (r release) notesSeeNoEmergencyInObjectsThatDeclareNone(t *testing.T) {
	t.Helper()
	const name = "nodekeep-emergency"
	roles, bindings := admin.RbacV1().Roles(r.namespace), admin.RbacV1().RoleBindings(r.namespace)
	for reason, row := range map[string]struct {
		account string
		verbs   []string
	}{
		"the right is another account's": {"nodekeep-verify", []string{"stop"}},
		"the Role has another right":     {"nodekeep-capture", []string{"close"}},
		"the Role has the other right":   {"nodekeep-capture", []string{"stop", "continue"}},
	} {
		_, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"nodekeep.dev"}, Resources: []string{"closing"}, Verbs: row.verbs}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = bindings.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: row.account, Namespace: r.namespace}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		notes := r.upgrade(t, "--dry-run=server")
		assert.NotContains(t, notes, "EMERGENCY", reason)
		assert.Contains(t, notes, "\nNew Nodes register behind the taint", reason)
		require.NoError(t, bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))
		require.NoError(t, roles.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// alive is what the processes have made of a release.
type alive struct {
	secret             map[string][]byte
	mutating           []byte // caBundle
	validating         []byte
	record             *corev1.ConfigMap
	secretUID, hookUID string
}

// live does what the webhook (its certificates, with its own rights) and capture (a record) do.
func (r release) live(t *testing.T) alive {
	t.Helper()
	r.issueCertificates(t)
	_, err := r.client(t, "nodekeep-capture").CoreV1().ConfigMaps(r.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "node.worker-1", Labels: map[string]string{"nodekeep.dev/record": "true"}}, Data: map[string]string{"record.json": "{}"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return r.look(t)
}

func (r release) client(t *testing.T, account string) *kubernetes.Clientset {
	t.Helper()
	config, err := control.ServiceAccount(t.Context(), r.namespace, account)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// issueCertificates runs what the webhook runs with --self-signed until there is nothing left for it to do.
func (r release) issueCertificates(t *testing.T) {
	t.Helper()
	issuer := certs.NewSelfSigned(r.client(t, "nodekeep-webhook"), certs.Options{Namespace: r.namespace, Interval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		issuer.Run(ctx)
	}()
	defer func() { stop(); <-done }()
	harness.Eventually(t, func() bool {
		now := r.look(t)
		return issuer.Loaded() == nil && len(now.secret["tls.crt"]) > 0 && len(now.mutating) > 0 && len(now.validating) > 0
	}, settles, 100*time.Millisecond)
}

func (r release) look(t *testing.T) (now alive) {
	t.Helper()
	mutating, err := admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	validating, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	now.mutating, now.validating, now.hookUID = mutating.Webhooks[len(mutating.Webhooks)-1].ClientConfig.CABundle, validating.Webhooks[0].ClientConfig.CABundle, string(mutating.UID)
	if secret, err := admin.CoreV1().Secrets(r.namespace).Get(t.Context(), "nodekeep-webhook-tls", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(t, err)
		now.secret, now.secretUID = secret.Data, string(secret.UID)
	}
	if now.record, err = admin.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "node.worker-1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return now
}

func (r release) losesNothingByUpgrades(t *testing.T, prev alive) {
	t.Helper()
	for _, args := range [][]string{
		nil,
		set("webhook.replicas=5", "policy.labels.ignore={a}", "log.level=debug"),
		set("webhookConfigurations.labels.a=b"),
		set("policy.labels.protected=inline"),
	} {
		r.upgrade(t, args...)
		assert.Equal(t, prev, r.look(t), "%v", args)
	}
	inline, err := admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, inline.Webhooks, 2)
	assert.Empty(t, inline.Webhooks[0].ClientConfig.CABundle, "a new webhook has none yet")
	r.issueCertificates(t)

	// To cert-manager, whose injector finds its annotation; until it acts, the API server trusts what it did.
	r.upgrade(t, set("certificates.mode=certManager")...)
	now := r.look(t)
	assert.Empty(t, now.secret, "the Secret of the other way is deleted")
	assert.Equal(t, prev.mutating, now.mutating)
	assert.Equal(t, prev.validating, now.validating)
	assert.Equal(t, prev.record, now.record)
	configuration, err := admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, r.namespace+"/nodekeep-webhook", configuration.Annotations["cert-manager.io/inject-ca-from"])
	injected := []byte("# another\n" + string(prev.mutating))
	configuration.Webhooks[0].ClientConfig.CABundle = injected
	_, err = admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), configuration, metav1.UpdateOptions{FieldManager: "cert-manager-cainjector"})
	require.NoError(t, err)
	r.upgrade(t, append(set("certificates.mode=certManager"), set("log.level=warn")...)...)
	assert.Equal(t, injected, r.look(t).mutating, "what the injector has put in stays")

	// To a certificate of the user's own, whose CA the values hold.
	pem, _, err := certutil.GenerateSelfSignedCertKey("ours", nil, nil)
	require.NoError(t, err)
	ours := set("certificates.mode=secret", "certificates.secret.name=ours", "certificates.secret.caBundle="+string(pem))
	if r.serverSide == "true" {
		_, err := r.tryHelm(t, append([]string{"upgrade", "nodekeep", harness.Chart(), "--reset-values"}, ours...)...)
		require.ErrorContains(t, err, `conflict with "cert-manager-cainjector"`, "what another has written is not overwritten silently")
		ours = append(ours, "--force-conflicts")
	}
	r.upgrade(t, ours...)
	assert.Equal(t, pem, r.look(t).mutating)

	// And back.
	r.upgrade(t)
	r.issueCertificates(t)
	assert.Equal(t, prev.record, r.look(t).record)
	assert.NotEqual(t, injected, r.look(t).mutating)
}

func (r release) isTheOnlyOne(t *testing.T) {
	t.Helper()
	second := release{namespace: "second", serverSide: r.serverSide}
	_, err := second.tryHelm(t, "install", "other", harness.Chart(), "--create-namespace")
	require.ErrorContains(t, err, `this cluster has nodekeep already, as release "nodekeep" in namespace "`+r.namespace+`"`)
}

// uninstall uninstalls the release while Nodes are behind the gate. No kubelet is there to run the Job's pod, so this does what it would
// do: it runs the program with the arguments of the Job, the rights of its ServiceAccount and the policy as rendered.
func (r release) uninstall(t *testing.T) {
	t.Helper()
	nodes := admin.CoreV1().Nodes()
	for _, name := range []string{"left-1", "left-2"} {
		node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.True(t, policy.DefaultGate.Present(node.Spec.Taints))
		defer func() {
			assert.NoError(t, nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
		}()
	}
	for _, kind := range []string{"serviceaccounts", "clusterroles"} {
		out, err := kubectl(t.Context(), "get", kind, "-n", r.namespace, "nodekeep-uninstall")
		require.Error(t, err, "no such right before it is needed: %s", out)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.tryHelm(t, "uninstall", "nodekeep")
		done <- err
	}()
	out, err := harness.RunUninstallJob(t.Context(), control, binary, r.namespace)
	require.NoError(t, err)
	t.Logf("the Job printed:\n%s", out)
	for _, name := range []string{"left-1", "left-2"} {
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.False(t, policy.DefaultGate.Present(node.Spec.Taints), name)
		assert.Contains(t, out, "node "+name+": gate lifted")
	}
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(settles):
		require.Fail(t, "helm uninstall does not end")
	}
	left, err := harness.Left(t.Context(), control)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A release can hold its own namespace. Helm must not delete it with the release: the records are in it.
func TestUninstallingAReleaseThatRenderedItsNamespaceKeepsTheRecords(t *testing.T) {
	withoutPolicies(t)
	r := release{namespace: "release-namespace", serverSide: "true"}
	r.helm(t, "install", "nodekeep", harness.Chart(), "--create-namespace", "--take-ownership", "--set", "namespace.create=true")
	records := admin.CoreV1().ConfigMaps(r.namespace)
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "node.worker-1", Labels: map[string]string{"nodekeep.dev/record": "true"}}}
	_, err := records.Create(t.Context(), record, metav1.CreateOptions{})
	require.NoError(t, err)
	r.helm(t, "uninstall", "nodekeep", "--no-hooks")
	namespace, err := admin.CoreV1().Namespaces().Get(t.Context(), r.namespace, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Nil(t, namespace.DeletionTimestamp, "with the namespace, every record is deleted")
	_, err = records.Get(t.Context(), record.Name, metav1.GetOptions{})
	require.NoError(t, err)
	left, err := harness.Left(t.Context(), control)
	require.NoError(t, err)
	assert.Empty(t, left)
	r.helm(t, "install", "nodekeep", harness.Chart(), "--take-ownership", "--set", "namespace.create=true")
	r.helm(t, "uninstall", "nodekeep", "--no-hooks")
}
