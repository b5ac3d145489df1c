package monitoring

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

func webhookIsDown(t *testing.T, n night, try func(facts)) {
	n.stops(t, "webhook")
	n.crashes(t, "webhook")
	n.Register(t, "bare")
	try(facts{})
}

func captureIsDown(t *testing.T, n night, try func(facts)) {
	n.stops(t, "capture")
	n.stops(t, "webhook") // it would lift the gate
	n.crashes(t, "capture")
	n.Register(t, "gated-17")
	try(facts{"NODE": "gated-17"})
}

func captureMayNotLead(t *testing.T, n night, try func(facts)) {
	n.stops(t, "capture")
	n.deprived(t, "capture", "coordination.k8s.io", "leases", "update")
	require.NoError(t, n.StartCapture(t.Context()))
	n.await(t, "capture", "nodekeep_controller_leading", isZero)
	try(facts{})
}

func captureMayNotPatch(t *testing.T, n night, try func(facts)) {
	n.await(t, "capture", "nodekeep_controller_leading", isPositive)
	n.stops(t, "webhook") // it would lift the gate
	n.deprived(t, "capture", "", "nodes", "patch")
	n.Register(t, "gated-17")
	n.AgeNode(t, "gated-17", time.Hour)
	n.await(t, "capture", "nodekeep_capture_nodes_gated", isPositive)
	try(facts{"NODE": "gated-17"})
}

func recordIsTorn(t *testing.T, n night, try func(facts)) {
	n.leaves(t, "torn-17", map[string]string{"rack": "r1"})
	n.writes(t, "torn-17", "{torn")
	for _, process := range []string{"webhook", "capture"} {
		n.await(t, process, `nodekeep_store_records{state="unreadable"}`, isPositive)
	}
	n.Register(t, "torn-17")
	n.AgeNode(t, "torn-17", time.Hour)
	n.await(t, "capture", "nodekeep_capture_nodes_gated", isPositive)
	try(facts{"NODE": "torn-17"})
}

// refusedLabel is one that only capture restores: the API server does not let kubelets have it.
const refusedLabel = "node-role.kubernetes.io/refused"

func labelIsRefused(t *testing.T, n night, try func(facts)) {
	n.leaves(t, "refused-17", map[string]string{refusedLabel: ""})
	n.Register(t, "probe")
	patch := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"labels": map[string]string{refusedLabel: ""}}})
	n.Deny(t, "no-such-label", harness.Denial{
		Operation: admissionregistrationv1.Update,
		Exception: "!has(object.metadata.labels) || !('" + refusedLabel + "' in object.metadata.labels)", Message: "denied by another team",
	}, func() bool {
		_, err := n.Admin.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), "probe", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	n.Register(t, "refused-17")
	n.AgeNode(t, "refused-17", time.Hour)
	n.rises(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="refused"}`)
	try(facts{"NODE": "refused-17"})
}

func policyIsBad(t *testing.T, n night, try func(facts)) {
	n.ForcePolicy(t, policytest.Manifest("labels: {keep: [a b]}"))
	n.await(t, "capture", "nodekeep_policy_good", isZero)
	try(facts{})
}

func policyIsDeleted(t *testing.T, n night, try func(facts)) {
	n.DeletePolicy(t)
	n.await(t, "capture", "nodekeep_policy_good", isZero)
	try(facts{})
}

func emergencyIsDeclared(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, checking("100%"))
	t.Cleanup(func() { // the alert's command has ended it, unless the test failed
		ended := n.Command(t, "", "", "emergency", "--end", "--yes")
		require.Zero(t, ended.Code, ended.ErrOut)
	})
	declared := n.Command(t, "", "", "emergency", "--yes", "--settle", "1s")
	require.Zero(t, declared.Code, declared.ErrOut)
	n.await(t, "capture", "nodekeep_policy_emergency", isPositive)
	n.joins(t, "open-17", map[string]string{"pool": "gpu"})
	try(facts{"NODE": "open-17"})
	n.await(t, "capture", "nodekeep_policy_emergency", isZero)
}

func guardsAreDeleted(t *testing.T, n night, try func(facts)) {
	require.NoError(t, n.WithoutGuards(t.Context(), func() {
		n.await(t, "capture", "nodekeep_guard_policies_in_force", isZero)
		try(facts{})
	}))
}

func webhookHasNoCertificate(t *testing.T, n night, try func(facts)) {
	n.stops(t, "webhook")
	n.deprived(t, "webhook", "", "secrets", "update")
	n.MustKubectl(t, "-n", harness.Namespace, "patch", "secret", "nodekeep-webhook-tls", "--type=merge", "-p", `{"data":null}`)
	shortly, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.Error(t, n.StartWebhook(shortly), "it runs, and is not ready")
	require.Eventually(t, func() bool { // on a busy machine it does not listen yet
		response, err := http.Get(n.MetricsURL("webhook"))
		if err != nil {
			return false
		}
		return response.Body.Close() == nil
	}, settles, 100*time.Millisecond)
	require.Contains(t, scraped(t, n.MetricsURL("webhook")).String(), `nodekeep_webhook_certificate_timestamp_seconds{bound="not_after"} 0`)
	try(facts{})
}

// certificateEnds has the webhook serve a certificate of its own CA, of whose life less than a fifth is left.
func certificateEnds(t *testing.T, n night, try func(facts)) {
	n.stops(t, "webhook")
	n.deprived(t, "webhook", "", "secrets", "update")
	const name = "nodekeep-webhook-tls"
	secrets := n.Admin.CoreV1().Secrets(harness.Namespace)
	secret, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	authority, err := tls.X509KeyPair(secret.Data["ca.crt"], secret.Data["ca.key"])
	require.NoError(t, err)
	served, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	old := *served.Leaf
	old.NotBefore, old.NotAfter = time.Now().Add(-30*24*time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &old, authority.Leaf, served.Leaf.PublicKey, authority.PrivateKey)
	require.NoError(t, err)
	secret.Data[corev1.TLSCertKey] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, n.StartWebhook(t.Context()))
	certificate := func(bound string) float64 {
		return harness.Series(t, n.MetricsURL("webhook"), fmt.Sprintf("nodekeep_webhook_certificate_timestamp_seconds{bound=%q}", bound))
	}
	left := (certificate("not_after") - float64(time.Now().Unix())) / (certificate("not_after") - certificate("not_before"))
	require.Greater(t, left, 0.0)
	require.Less(t, left, 0.2, "the alert fires")
	try(facts{})
}

func recordsTakeLabels(t *testing.T, n night, try func(facts)) {
	names := harness.Names("corrected", 3)
	for _, name := range names {
		n.leaves(t, name, map[string]string{"rack": "mine"})
	}
	n.stops(t, "capture")
	for _, name := range names {
		nodes, err := n.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		version, err := record.ParseVersion(nodes.ResourceVersion)
		require.NoError(t, err)
		require.Equal(t, "mine", n.Register(t, name).Labels["rack"], "restored by the webhook")
		changed := record.New(name, record.Object{UID: "another", Version: version}, map[string]string{"rack": "another"})
		changed.Cluster = n.MustRecord(t, name).Cluster
		body, err := store.Encode(changed)
		require.NoError(t, err)
		n.writes(t, name, string(body))
		n.AgeNode(t, name, time.Hour)
	}
	require.NoError(t, n.StartCapture(t.Context()))
	n.await(t, "capture", `nodekeep_capture_held_nodes{kind="corrections"}`, func(held float64) bool { return held == 2 })
	held := slices.IndexFunc(names, func(name string) bool { return n.Node(t, name).Labels["rack"] == "mine" })
	require.GreaterOrEqual(t, held, 0)
	try(facts{"NODE": names[held]})
}

func rulesAreHeld(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, withRules("{name: all, set: {tier: one}}"))
	for _, name := range harness.Names("ruled", 3) {
		n.Register(t, name)
		n.hasLabels(t, name, map[string]string{"tier": "one"})
	}
	modified := withRules("{name: all, set: {tier: two}}")
	loaded, err := policy.Load([]byte(modified), policy.DefaultGate)
	require.NoError(t, err)
	n.SetPolicy(t, modified)
	n.await(t, "capture", `nodekeep_capture_held_nodes{kind="rules"}`, isPositive)
	try(facts{"HASH": loaded.RulesHash()})
	for _, name := range harness.Names("ruled", 3) {
		n.hasLabels(t, name, map[string]string{"tier": "two"}) // they were accepted
	}
}

func migrationIsOpen(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, policytest.Manifest("labels: {migrations: [{from: gpu, to: example.com/gpu, phase: both}]}\n"))
	n.Register(t, "renamed-17")
	n.Label(t, "renamed-17", map[string]string{"gpu": "a"})
	n.hasLabels(t, "renamed-17", map[string]string{"example.com/gpu": "a"})
	n.Register(t, "double-17")
	n.Label(t, "double-17", map[string]string{"gpu": "a", "example.com/gpu": "b"})
	try(facts{"NODE": "double-17", "OLD": "gpu", "NEW": "example.com/gpu"})
}

// inventoried has three Nodes in a rack that an inventory names.
func (n night) inventoried(t *testing.T) (move func(rack string)) {
	t.Helper()
	names := harness.Names("racked", 3)
	move = func(rack string) {
		t.Helper()
		var entries []string
		for _, name := range names {
			entries = append(entries, fmt.Sprintf(`{"name":%q,"attributes":{"rack":%q}}`, name, rack))
		}
		n.lists(t, `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[`+strings.Join(entries, ",")+`]}`)
	}
	move("r7")
	n.SetPolicy(t, policytest.Manifest("labels: {rules: [{name: rack, set: {example.com/rack: \"{inventory.racks.rack}\"}}]}\n"+
		"inventory: [{name: racks, configMap: racks, interval: 1s, staleAfter: 2s, attributes: [rack]}]\n"))
	for _, name := range names {
		n.Register(t, name)
		n.hasLabels(t, name, map[string]string{"example.com/rack": "r7"})
	}
	return move
}

func inventoryIsHeld(t *testing.T, n night, try func(facts)) {
	n.inventoried(t)("r8")
	n.await(t, "capture", `nodekeep_capture_held_nodes{kind="inventory"}`, isPositive)
	var status inventories.SourceStatus
	require.Eventually(t, func() bool {
		found, err := n.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), inventories.InventoryName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		status, _ = inventories.SourceStatusOf(found, "racks")
		return status.Held != ""
	}, settles, 100*time.Millisecond)
	try(facts{"HASH": status.Held})
	for _, name := range harness.Names("racked", 3) {
		n.hasLabels(t, name, map[string]string{"example.com/rack": "r8"}) // it was accepted
	}
}

func inventoryIsStale(t *testing.T, n night, try func(facts)) {
	n.inventoried(t)
	n.MustKubectl(t, "-n", harness.Namespace, "delete", "configmap", "racks")
	n.await(t, "capture", "nodekeep_inventory_stale", isPositive)
	try(facts{})
}

func labelIsMissing(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, policytest.Manifest("governance: {keys: [{key: tier, values: [gold], required: true}]}\n"))
	n.Register(t, "lacking-17")
	n.await(t, "capture", `nodekeep_governance_violations{kind="required"}`, isPositive)
	try(facts{"NODE": "lacking-17"})
}

// checking returns a policy that verifies Nodes, and removes those that fail once.
func checking(stopAbove string) string {
	return policytest.Manifest(`verify:
  limits: {stopAbove: ` + stopAbove + `}
  profiles:
  - name: gpu
    nodeSelector: pool=gpu
    checks: [{name: dns, dns: {names: [kubernetes.default.svc]}}]
    attempts: {max: 1, backoff: 1s, maxBackoff: 1s}
    deadline: 1m
    onFailure: node
`)
}

// checks has Nodes of the profile: two that are verified, and others.
func (n night) checks(t *testing.T, stopAbove string, rest ...string) {
	t.Helper()
	n.SetPolicy(t, checking(stopAbove))
	for _, name := range []string{"verified-first", "verified-0"} { // the very first Node is verified without dns, which no cluster without Nodes answers
		n.joins(t, name, map[string]string{"pool": "gpu"})
		harness.Eventually(t, func() bool { return len(n.Node(t, name).Spec.Taints) == 0 }, settles, 50*time.Millisecond)
	}
	for _, name := range rest {
		n.joins(t, name, map[string]string{"pool": "gpu"})
	}
}

func (n night) brakes(t *testing.T, reason verify.BrakeReason) {
	t.Helper()
	n.await(t, "verify", fmt.Sprintf("nodekeep_verify_brake_open{reason=%q}", reason), isPositive)
}

func nodesFail(t *testing.T, n night, try func(facts)) {
	n.checks(t, "100%", "broken-0")
	n.AgeNode(t, "broken-0", 50*time.Second) // of the minute that it has
	n.brakes(t, verify.BrakeLedger)          // the rights that removals need are not granted
	n.await(t, "verify", "nodekeep_verify_overdue_nodes", isPositive)
	n.rises(t, "verify", `nodekeep_verify_results_total{outcome="failed"}`)
	try(facts{"NODE": "broken-0"})
}

// removes grants what the chart grants for onFailure: node, until the end of the situation.
func (n night) removes(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, n.RevokeRemoval(context.WithoutCancel(t.Context()))) })
	require.NoError(t, n.GrantRemoval(t.Context(), verify.RemoveNode))
}

func podHoldsRemoval(t *testing.T, n night, try func(facts)) {
	n.removes(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // no controller makes it here
	_, err := n.Admin.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), err)
	pods := n.Admin.CoreV1().Pods("default")
	_, err = pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "workload"}, Spec: corev1.PodSpec{NodeName: "broken-1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, pods.Delete(context.WithoutCancel(t.Context()), "workload", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	})
	n.checks(t, "100%", "broken-1")
	n.brakes(t, verify.BrakePods)
	try(facts{"NODE": "broken-1"})
}

func tooManyFail(t *testing.T, n night, try func(facts)) {
	n.removes(t)
	n.checks(t, "20%", "broken-2")
	n.brakes(t, verify.BrakeTooMany)
	try(facts{"NODE": "broken-2"})
}

func nodeIsRemoved(t *testing.T, n night, try func(facts)) {
	n.removes(t)
	n.checks(t, "100%", "broken-3")
	n.rises(t, "verify", `nodekeep_verify_removals_total{outcome="removed"}`)
	try(facts{"NODE": "broken-3"})
}

func failureIsShared(t *testing.T, n night, try func(facts)) {
	n.checks(t, "100%")
	n.fault.Store(true)
	defer n.fault.Store(false)
	n.joins(t, "new-0", map[string]string{"pool": "gpu"})
	n.await(t, "verify", `nodekeep_verify_shared_failure{profile="gpu"}`, isPositive)
	try(facts{"NODE": "new-0"})
}

func verifyIsDown(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, checking("100%"))
	n.stops(t, "verify")
	n.crashes(t, "verify")
	n.joins(t, "new-1", map[string]string{"pool": "gpu"})
	try(facts{"NODE": "new-1"})
}

func verifyMayNotLead(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, checking("100%"))
	n.stops(t, "verify")
	n.deprived(t, "verify", "coordination.k8s.io", "leases", "update")
	require.NoError(t, n.StartVerify(t.Context()))
	n.joins(t, "new-2", map[string]string{"pool": "gpu"})
	try(facts{"NODE": "new-2"})
}

func recordVanishes(t *testing.T, n night, try func(facts)) {
	n.leaves(t, "watched-17", map[string]string{"rack": "r1"})
	n.WaitRecorded(t, n.Register(t, "watched-17"), map[string]string{"rack": "r1"})
	n.MustKubectl(t, "-n", harness.Namespace, "delete", "configmap", store.Name("watched-17"))
	n.rises(t, "capture", "nodekeep_capture_records_vanished_total")
	try(facts{"NODE": "watched-17"})
}

func recordsAreKept(t *testing.T, n night, try func(facts)) {
	n.leaves(t, "long-ago", map[string]string{"rack": "r1"})
	n.AgeRecord(t, "long-ago", 365*24*time.Hour)
	n.stops(t, "capture")
	n.deprived(t, "capture", "", "configmaps", "delete")
	t.Cleanup(func() { n.CaptureArgs = nil })
	n.CaptureArgs = []string{"--retention-sweep", "1s", "--retention-fraction", "1"}
	require.NoError(t, n.StartCapture(t.Context()))
	n.rises(t, "capture", `nodekeep_capture_records_collected_total{outcome="failed"}`)
	try(facts{})
}

func deletionIsNotRecorded(t *testing.T, n night, try func(facts)) {
	n.stops(t, "capture")
	n.deprived(t, "webhook", "", "configmaps", "create")
	n.Register(t, "edited-17")
	n.Label(t, "edited-17", map[string]string{"rack": "r1"})
	n.DeleteNode(t, "edited-17")
	n.rises(t, "webhook", `nodekeep_webhook_deletions_total{outcome="failed"}`)
	try(facts{"NODE": "edited-17"})
}

func webhookIsNotReady(t *testing.T, n night, try func(facts)) {
	n.stops(t, "webhook")
	n.deprived(t, "webhook", "", "configmaps", "list")
	n.deprived(t, "webhook", "", "configmaps", "watch")
	shortly, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.Error(t, n.StartWebhook(shortly), "it runs, and is not ready")
	n.Register(t, "sent-back")
	n.rises(t, "webhook", `nodekeep_webhook_reviews_total{outcome="not_ready"}`)
	try(facts{})
}

func inlineIsLost(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, policytest.Manifest("labels: {protected: inline}\n"))
	n.WithInline(t, func() {
		n.await(t, "webhook", "nodekeep_webhook_inline_proved", isPositive)
		require.NoError(t, n.StopWebhook()) // it proves it at its start, and every ten minutes
		require.NoError(t, n.Reapply(t.Context()))
		require.NoError(t, n.StartWebhook(t.Context()))
		n.await(t, "webhook", "nodekeep_webhook_inline_proved", isZero)
		try(facts{})
	})
}

// fights has another client give a label of a Node these values in turn, until stop.
func (n night) fights(t *testing.T, node, key string, values ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = n.Kubectl(ctx, "label", "--field-manager=another", "--overwrite", "node", node, key+"="+values[i%len(values)])
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-ended }
}

func clientsFight(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, withRules("{name: all, set: {tier: one}, precedence: rule}"))
	n.Register(t, "fought-17")
	defer n.fights(t, "fought-17", "tier", "another")()
	n.rises(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="rule_drifted"}`)
	n.await(t, "capture", "nodekeep_capture_items_paused", isPositive)
	try(facts{"NODE": "fought-17"})
}

func labelFlaps(t *testing.T, n night, try func(facts)) {
	n.Register(t, "flaps-17")
	defer n.fights(t, "flaps-17", "rack", "r1", "r2")()
	n.rises(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="flapped"}`)
	try(facts{"NODE": "flaps-17"})
}

func ruleIsInvalid(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, withRules(`{name: kernel, set: {kernel: "{node.kernel}"}}`))
	node := harness.Registration("rebuilt-17")
	node.Status.NodeInfo.KernelVersion = "6.1 (rebuilt)"
	n.RegisterNode(t, node)
	n.rises(t, "capture", `nodekeep_capture_items_total{kind="label",outcome="rule_invalid"}`)
	try(facts{"NODE": "rebuilt-17"})
}

func devicesAreUnknown(t *testing.T, n night, try func(facts)) {
	n.SetPolicy(t, withRules(`{name: h100, when: {devices: {driver: gpu.example.com, attributes: {productName: "*H100*"}}}, set: {gpu: h100}}`))
	n.Register(t, "with-devices")
	n.await(t, "capture", `nodekeep_rules_facts_unknown{source="devices"}`, isPositive)
	try(facts{})
}
