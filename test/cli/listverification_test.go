package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"

	"nodekeep.dev/nodekeep/policy/policytest"
)

var profiles = policytest.Manifest(`verify:
  profiles:
  - name: gpu
    nodeSelector: gpu=yes
    taint: example.com/new:NoExecute
    checks: [{name: dns, dns: {names: [kubernetes.default.svc]}}]
    onTimeout: release
  - name: rest
    nodeSelector: verified=yes
    checks: [{name: api, api: {}}]
`)

func taintsOf(t *testing.T, name string) (taints []string) {
	t.Helper()
	for _, taint := range nodekeep.Node(t, name).Spec.Taints {
		if taint.Key != corev1.TaintNodeNotReady && !policy.DefaultGate.Matches(taint) {
			taints = append(taints, taint.ToString())
		}
	}
	return taints
}

// becomesReady does what a kubelet does once its CNI runs, and waits until the gate is lifted.
func becomesReady(t *testing.T, name string) {
	t.Helper()
	nodekeep.MustKubectl(t, "patch", "node", name, "--subresource=status", "--type=strategic", "-p", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	harness.Eventually(t, func() bool { return !gateOn(t, name) }, settles, 50*time.Millisecond)
	for _, taint := range nodekeep.Node(t, name).Spec.Taints { // the node lifecycle controller does not run here
		if taint.Key == corev1.TaintNodeNotReady {
			nodekeep.MustKubectl(t, "taint", "node", name, taint.Key+":"+string(taint.Effect)+"-")
		}
	}
}

// inChecks writes a ConfigMap with one key into the namespace of worker Pods, reports and the ledger.
func inChecks(t *testing.T, name, key, text string) {
	t.Helper()
	_, _ = nodekeep.Kubectl(t.Context(), "create", "namespace", verify.Namespace) // another test may have made it
	hasMap(t, verify.Namespace, name, key, text)
}

// hasMap writes a ConfigMap with one key, whether it is there or not.
func hasMap(t *testing.T, namespace, name, key, text string) {
	t.Helper()
	configMaps := nodekeep.Admin.CoreV1().ConfigMaps(namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: text}}
	if _, err := configMaps.Update(t.Context(), wanted, metav1.UpdateOptions{}); err != nil {
		_, err = configMaps.Create(t.Context(), wanted, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// failedOften has the annotation of a Node say that all attempts of a profile failed.
func failedOften(t *testing.T, name, content, profile string, instant time.Time, held *verify.Brake) {
	t.Helper()
	loaded, err := policy.Load([]byte(content), policy.DefaultGate)
	require.NoError(t, err)
	progress := verify.Progress{
		Attempts: 5, Profile: profile, BootID: nodekeep.Node(t, name).Status.NodeInfo.BootID, RemovalHeld: held,
		Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer in time", Time: instant},
	}
	for _, compiled := range loaded.Verify().All() {
		if compiled.Name == profile {
			progress.Hash = compiled.Hash
		}
	}
	nodekeep.MustKubectl(t, "annotate", "node", name, verify.Annotation+"="+progress.String())
}

func TestAnOperatorSeesWhyNodesTakeNoWorkloads(t *testing.T) {
	defer withPolicy(t, profiles)() // no controller runs
	registerWith(t, "verify-gpu", map[string]string{"gpu": "yes"})
	registerWith(t, "verify-new", map[string]string{"verified": "yes"})
	registerWith(t, "verify-tried", map[string]string{"verified": "yes"})
	registerWith(t, "verify-not", nil)
	assert.Equal(t, []string{"example.com/new:NoExecute"}, taintsOf(t, "verify-gpu"))
	assert.Equal(t, []string{"nodekeep.dev/unverified:NoSchedule"}, taintsOf(t, "verify-new"))
	assert.Empty(t, taintsOf(t, "verify-not"))
	for _, name := range []string{"verify-new", "verify-tried", "verify-not"} {
		becomesReady(t, name)
	}
	harness.Eventually(t, func() bool { return !gateOn(t, "verify-gpu") }, settles, 50*time.Millisecond)

	node := nodekeep.Node(t, "verify-tried")
	tried := time.Now().Add(-2 * time.Second).UTC().Truncate(time.Second)
	failedOften(t, "verify-tried", profiles, "rest", tried, nil)
	report := verify.SavedReport{
		Node: "verify-tried", UID: string(node.UID), Profile: "rest", Attempt: 5, Time: tried, Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer in time",
		Results: []verify.Result{
			{Check: "api", Outcome: verify.Failed, Required: true, Reason: "Timeout", Message: "no answer in time\x1b[2J\u202e", Millis: 29500, Tries: 17},
			{Check: "internet", Outcome: verify.Passed, Millis: 12, Tries: 1},
		},
	}
	inChecks(t, verify.ReportName("verify-tried"), verify.ReportKey, report.String()) // as the controller does

	requireGolden(t, "list-unverified", tableOfWaiting(t))
	requireGolden(t, "list-unverified-wide", tableOfWaiting(t, "--all", "-o", "wide", "-l", "verified"))
	requireGolden(t, "show-verification", shownWithoutController(t, "verify-tried"))
	requireGolden(t, "show-verification-new", shownWithoutController(t, "verify-gpu"))
	assert.Equal(t, "node/verify-gpu\nnode/verify-new\nnode/verify-tried\n", run(t, "list", "--waiting", "verification", "-o", "name").RequireDone(t).Out)
	var shown struct {
		Kind         string
		Verification struct{ State, Why string }
		Report       verify.SavedReport
	}
	answerJSON(t, &shown, "show", "verify-tried", "--verification")
	assert.Equal(t, "NodeVerification", shown.Kind)
	assert.Equal(t, "stuck", shown.Verification.State)
	assert.Len(t, shown.Report.Results, 2)

	assert.Contains(t, run(t, "explain", "verify-new").RequireDone(t).Out, "it is not verified yet (nodekeep.dev/unverified:NoSchedule): nodekeep show verify-new --verification")
	assert.Regexp(t, `verify-new +\S+ +\S+ +0 +0 +unverified`, run(t, "list").RequireDone(t).Out)
	assert.Regexp(t, `verify-not +\S+ +\S+ +0 +0 +no`, run(t, "list").RequireDone(t).Out)

	remove(t, "verify-tried")
	requireGolden(t, "show-verification-deleted", run(t, "show", "verify-tried", "--verification").RequireDone(t).Out)
}

// noController is what is said where no process acts on a request.
const noController = "No verification controller has ever led here, so nothing is checked until one does.\n"

// shownWithoutController returns what `show --verification` says of a Node that waits.
func shownWithoutController(t *testing.T, node string) string {
	t.Helper()
	a := run(t, "show", node, "--verification")
	require.Zero(t, a.Code, a.ErrOut)
	assert.Equal(t, noController, a.ErrOut)
	return a.Out
}

// ranWithoutController returns what `recheck` says that it did.
func ranWithoutController(t *testing.T, node string) string {
	t.Helper()
	a := run(t, "recheck", node, "--yes")
	require.Zero(t, a.Code, a.ErrOut)
	assert.Equal(t, noController, a.ErrOut)
	return a.Out
}

func TestANodeIsVerifiedAgainAndReleasedByAnOperator(t *testing.T) {
	defer withPolicy(t, profiles)() // no controller runs
	registerWith(t, "verify-again", map[string]string{"verified": "yes"})
	becomesReady(t, "verify-again")

	a := answering(t, "\n", "release", "verify-again")
	assert.Equal(t, 3, a.Code)
	requireGolden(t, "release", a.ErrOut)
	assert.Equal(t, []string{"nodekeep.dev/unverified:NoSchedule"}, taintsOf(t, "verify-again"))
	bindRole(t, forOperators, "rita")
	untilAllowed(t, "rita", "show verify-again --verification")
	a = run(t, "release", "verify-again", "--yes", "--as=rita").RequireDone(t)
	assert.Equal(t, "node/verify-again: released without verification\n", a.Out)
	assert.Empty(t, a.ErrOut, "an operator may write the Event")
	assert.Contains(t, nodekeep.MustKubectl(t, "describe", "node", "verify-again"), "an operator released the Node: nodekeep release")
	assert.Empty(t, taintsOf(t, "verify-again"))
	node := nodekeep.Node(t, "verify-again")
	progress := verify.ParseProgress(node.Annotations[verify.Annotation])
	require.NotNil(t, progress.Last)
	assert.Equal(t, 1, progress.Round)
	assert.Equal(t, verify.VerdictReleased, progress.Last.Result)
	assert.NotContains(t, node.Labels, verify.Label)
	assert.Equal(t, "node/verify-again is neither behind the gate, nor has it a taint of verification\n", run(t, "release", "verify-again", "--yes").RequireDone(t).Out)

	nodekeep.MustKubectl(t, "label", "node", "verify-again", verify.Label+"=true")
	nodekeep.MustKubectl(t, "annotate", "node", "verify-again", verify.Annotation+"-") // as on a Node from before verification was turned on
	a = answering(t, "\n", "recheck", "verify-again")
	assert.Equal(t, 3, a.Code)
	requireGolden(t, "recheck", a.ErrOut)
	assert.Equal(t, "node/verify-again: taint nodekeep.dev/unverified:NoSchedule added; the controller starts an attempt now\n", ranWithoutController(t, "verify-again"))
	assert.Equal(t, []string{"nodekeep.dev/unverified:NoSchedule"}, taintsOf(t, "verify-again"))
	assert.NotContains(t, labelsOf(t, "verify-again"), verify.Label)
	assert.Equal(t, 1, verify.ParseProgress(nodekeep.Node(t, "verify-again").Annotations[verify.Annotation]).Round, "it is never removed, also if verification was off while it was open")

	nodekeep.MustKubectl(t, "annotate", "node", "verify-again", verify.Annotation+"-")
	failedOften(t, "verify-again", profiles, "rest", time.Now(), nil)
	assert.Regexp(t, `verify-again +stuck`, tableOfWaiting(t))
	a = answering(t, "\n", "recheck", "verify-again")
	assert.Equal(t, 3, a.Code)
	assert.Contains(t, a.ErrOut, `Node "verify-again" is closed, and 5 attempts did not pass. Attempts begin anew`)
	assert.Equal(t, "node/verify-again: attempts begin anew; the controller starts an attempt now\n", ranWithoutController(t, "verify-again"))
	asked := verify.ParseProgress(nodekeep.Node(t, "verify-again").Annotations[verify.Annotation])
	assert.Zero(t, asked.Attempts)
	assert.NotZero(t, asked.Asked)
	assert.Regexp(t, `verify-again +waiting .*attempt 1 is due`, tableOfWaiting(t))

	registerWith(t, "verify-unselected", nil)
	ends(t, 3, `no profile of the policy selects node "verify-unselected" by its labels`, "recheck", "verify-unselected", "--yes")
}

func TestANodeWhoseProfileOnlyReportsIsCheckedNowOnRequestAndStaysOpen(t *testing.T) {
	defer withPolicy(t, policytest.Manifest("verify: {profiles: [{name: health, nodeSelector: health=yes, mode: report, checks: [{name: api, api: {}}]}]}\n"))() // no controller runs
	registerWith(t, "verify-health", map[string]string{"health": "yes"})
	assert.Empty(t, taintsOf(t, "verify-health"))
	becomesReady(t, "verify-health")
	last := verify.Last{Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer in time", Time: time.Now()}
	hash := loadedProfile(t, "verify: {profiles: [{name: health, mode: report, checks: [{name: api, api: {}}]}]}\n").Hash
	progress := verify.Progress{Round: 7, Attempts: 2, Failed: 2, Hash: hash, Reports: true, BootID: nodekeep.Node(t, "verify-health").Status.NodeInfo.BootID, Last: &last}
	nodekeep.MustKubectl(t, "annotate", "node", "verify-health", verify.Annotation+"="+progress.String())
	a := run(t, "list", "--waiting", "verification")
	assert.Regexp(t, `verify-health +failing +health .*a required check failed: api \(Timeout\): no answer in time`, a.Out)
	assert.Contains(t, a.ErrOut, "nothing is checked until one does", "no controller leads")
	a = run(t, "show", "verify-health", "--verification")
	assert.Contains(t, a.Out, "report: the Node takes workloads whatever its checks say")
	assert.Contains(t, a.ErrOut, "nothing is checked until one does")

	a = answering(t, "\n", "recheck", "verify-health")
	assert.Equal(t, 3, a.Code)
	assert.Contains(t, a.ErrOut, `Profile health only reports: node "verify-health" takes workloads meanwhile, and gets no taint.`)
	assert.Equal(t, "node/verify-health: it stays open; the controller starts an attempt now\n", ranWithoutController(t, "verify-health"))
	assert.Empty(t, taintsOf(t, "verify-health"))
	now := verify.ParseProgress(nodekeep.Node(t, "verify-health").Annotations[verify.Annotation])
	assert.Nil(t, now.Last, "so it is due")
	assert.Equal(t, 8, now.Round)
	assert.Equal(t, "node/verify-health is neither behind the gate, nor has it a taint of verification\n", run(t, "release", "verify-health", "--yes").RequireDone(t).Out)
}

// loadedProfile returns the only profile of a policy with these sections.
func loadedProfile(t *testing.T, sections string) verify.CompiledProfile {
	t.Helper()
	loaded, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	return loaded.Verify().All()[0]
}

var removing = policytest.Manifest(`verify:
  profiles:
  - name: gpu
    nodeSelector: removable=yes
    onFailure: nodeClaim
    checks: [{name: api, api: {}}]
`)

// No Node waits, and all the same nothing is tried while no controller leads.
func TestOfAProfileThatIsNotProvedAnOperatorSeesThatNoControllerLeads(t *testing.T) {
	defer withPolicy(t, removing)() // no controller runs
	registerWith(t, "open-unproved", map[string]string{"removable": "yes"})
	becomesReady(t, "open-unproved")
	nodekeep.MustKubectl(t, "taint", "node", "open-unproved", verify.Taint+"-")
	loaded, err := policy.Load([]byte(removing), policy.DefaultGate)
	require.NoError(t, err)
	profile, _ := loaded.Verify().Named("gpu")
	trial := verify.SavedReport{Node: "open-unproved", Profile: "gpu", Hash: profile.Hash, Result: verify.VerdictFailed, Check: "api", Reason: "Timeout", Message: "no answer", Time: time.Now().UTC()}
	inChecks(t, verify.TrialName("gpu"), verify.ReportKey, trial.String())
	deletedAtEnd(t, "configmap", verify.TrialName("gpu"), "-n", verify.Namespace)
	list := run(t, "list", "--waiting", "verification")
	require.Zero(t, list.Code, list.ErrOut)
	assert.Regexp(t, "^No verification controller has ever led here, so nothing is checked until one does.\nprofile gpu: not yet proved: check api failed in a trial on Node open-unproved .*; a controller that leads tries again by itself\n", list.ErrOut)
}

// tableOfWaiting returns the table of `list --waiting verification`. Which profiles are not proved yet, it says apart from it.
func tableOfWaiting(t *testing.T, args ...string) string {
	t.Helper()
	answer := run(t, append([]string{"list", "--waiting", "verification"}, args...)...)
	require.Zero(t, answer.Code, answer.ErrOut)
	return answer.Out
}

func TestAnOperatorSeesWhatHoldsRemovalsAndWhichNodesWereRemoved(t *testing.T) {
	defer withPolicy(t, removing)() // no controller runs
	registerWith(t, "remove-held", map[string]string{"removable": "yes"})
	becomesReady(t, "remove-held")
	assert.NotContains(t, run(t, "list", "--waiting", "verification").ErrOut, "emoved")

	now := time.Now().UTC().Truncate(time.Second)
	failedOften(t, "remove-held", removing, "gpu", now, &verify.Brake{Reason: verify.BrakePods, Message: "Pod default/web-1 runs on it"})
	ledger := verify.Ledger{}.
		Add(verify.Removal{Node: "remove-gone", UID: "U1", Kind: verify.RemoveNodeClaim, Profile: "gpu", Time: now.Add(-3 * time.Hour), Done: true}, now).
		Add(verify.Removal{Node: "remove-other", UID: "U2", Kind: verify.RemoveNodeClaim, Profile: "gpu", Time: now.Add(-5 * time.Minute), Done: true}, now)
	inChecks(t, verify.LedgerMap, verify.LedgerKey, ledger.String())

	list := run(t, "list", "--waiting", "verification") // lines for operators are next to the table, which scripts read
	assert.Zero(t, list.Code)
	requireGolden(t, "list-unverified-held", list.ErrOut+list.Out)
	requireGolden(t, "show-verification-held", shownWithoutController(t, "remove-held"))
	requireGolden(t, "show-verification-removed", run(t, "show", "remove-gone", "--verification").RequireDone(t).Out)
	var listed struct {
		Items    []struct{ RemovalHeld verify.Brake }
		Removals struct {
			Lately []verify.Removal
			Brake  verify.Brake
		}
	}
	answerJSON(t, &listed, "list", "--waiting", "verification")
	assert.Equal(t, verify.BrakePods, listed.Items[0].RemovalHeld.Reason)
	assert.Equal(t, verify.BrakeBudget, listed.Removals.Brake.Reason)
	assert.Len(t, listed.Removals.Lately, 2)
	var shown struct{ Removals []verify.Removal }
	answerJSON(t, &shown, "show", "remove-gone", "--verification")
	assert.Equal(t, verify.RemoveNodeClaim, shown.Removals[0].Kind)

	inChecks(t, verify.LedgerMap, verify.LedgerKey, "{")
	const spoiled = "ConfigMap nodekeep-verify in namespace nodekeep-checks: read removals: not a list of removals in JSON; no Node is removed until this is corrected. " +
		"To correct it, delete the ConfigMap (kubectl -n nodekeep-checks delete configmap nodekeep-verify)"
	list = run(t, "list", "--waiting", "verification")
	assert.Zero(t, list.Code)
	assert.Contains(t, list.ErrOut, spoiled)
	assert.Contains(t, list.Out, "remove-held")
	a := run(t, "show", "remove-gone", "--verification")
	assert.NotZero(t, a.Code)
	assert.Contains(t, a.ErrOut, spoiled)
	a = run(t, "show", "remove-held", "--verification")
	assert.Zero(t, a.Code)
	assert.Contains(t, a.ErrOut, spoiled)
	require.NoError(t, nodekeep.Admin.CoreV1().ConfigMaps(verify.Namespace).Delete(t.Context(), verify.LedgerMap, metav1.DeleteOptions{}))
}
