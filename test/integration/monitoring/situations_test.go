package monitoring

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// situation is a state of a cluster, with the alerts that it brings.
type situation struct {
	name string
	// begin brings the state about as it comes about, has its alerts tried, and ends it.
	begin  func(t *testing.T, n night, try func(facts))
	alerts []row
}

// facts are what an operator fills into commands, and finds in what they print: by how alerts and this table write it.
type facts map[string]string

// row has what each command of an alert shows in a situation, in the order of the alert's description.
type row struct {
	alert string
	shows []shown
}

// shown is what one command shows.
type shown struct {
	line string   // how it begins, without the namespace
	code int      // how it ends; commands that find something end with 1
	says []string // a text, or after ~ a regular expression
}

// situations have, for each alert with a command, a state in which its cause is there, but for those of elsewhere.
var situations = []situation{
	{"no replica of the webhook runs", webhookIsDown, []row{
		{"NodekeepWebhookAbsent", []shown{
			{"kubectl get pods", 0, []string{"nodekeep-webhook ", "CrashLoopBackOff"}},
			{"nodekeep emergency", 0, []string{`~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
		{"NodekeepWebhookFailsOpen", []shown{
			{"nodekeep doctor", 1, []string{"error (webhook-answers)", "logs deployment/nodekeep-webhook"}},
		}},
	}},
	{"no replica of capture runs", captureIsDown, []row{
		{"NodekeepCaptureAbsent", []shown{
			{"kubectl get pods", 0, []string{"nodekeep-capture ", "CrashLoopBackOff"}},
			{"nodekeep emergency", 0, []string{`~behind the gate: +1 \(NODE\)`, `~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
	}},
	{"capture may not write its Lease", captureMayNotLead, []row{
		{"NodekeepNoLeader", []shown{
			{"kubectl get lease nodekeep-capture", 0, []string{`~(?m)^nodekeep-capture +[0-9hms]+$`}}, // it has no holder
			{"kubectl logs", 0, []string{"leases", "forbidden"}},
			{"nodekeep emergency", 0, []string{`~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
	}},
	{"capture may not change Nodes", captureMayNotPatch, []row{
		{"NodekeepManyNodesGated", []shown{
			{"nodekeep list --waiting gate", 0, []string{"NODE"}},
			{"kubectl logs", 0, []string{"NODE", "forbidden"}},
			{"nodekeep emergency", 0, []string{`~behind the gate: +1 \(NODE\)`, `~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
		{"NodekeepRecordsNotCurrent", []shown{{"kubectl logs", 0, []string{"NODE", "forbidden"}}}},
		{"NodekeepCaptureFails", []shown{{"kubectl logs", 0, []string{"NODE", "forbidden"}}}},
		{"NodekeepNodeGatedForLong", []shown{
			{"nodekeep list --waiting gate", 0, []string{"NODE", "log of the leading capture"}},
			{"kubectl get events", 0, []string{"No resources found"}}, // so the log has the reason
			{"kubectl get configmap", 1, []string{"not found"}},       // it has no record
			{"kubectl logs", 0, []string{"NODE", "forbidden"}},
			{"kubectl taint", 0, []string{"NODE untainted"}},
		}},
	}},
	{"the record of a Node that registers cannot be read", recordIsTorn, []row{
		{"NodekeepNodeGatedForLong", []shown{
			{"nodekeep list --waiting gate", 0, []string{"NODE", "record cannot be read", "node.NODE"}},
			{"kubectl get events", 0, []string{"node/NODE", "RecordInvalid"}},
			{"kubectl get configmap", 0, []string{"torn"}},
			{"kubectl logs", 1, nil}, // that is for Nodes without an Event
			{"kubectl taint", 0, []string{"NODE untainted"}},
		}},
		{"NodekeepRecordsUnreadable", []shown{{"nodekeep doctor", 1, []string{"error (records)", "node.NODE"}}}},
	}},
	{"the API server refuses a label", labelIsRefused, []row{
		{"NodekeepLabelsRefused", []shown{
			{"kubectl get events", 0, []string{"node/NODE", "LabelRefused", refusedLabel}},
			{"kubectl taint", 0, []string{"NODE untainted"}},
			{"kubectl get events", 0, []string{"No resources found"}}, // no rule makes it
		}},
		{"NodekeepNodeGatedForLong", []shown{
			{"nodekeep list --waiting gate", 0, []string{"NODE", "refuses", "denied by another team"}},
			{"kubectl get events", 0, []string{"node/NODE", refusedLabel}},
			{"kubectl get configmap", 0, []string{refusedLabel}},
			{"kubectl logs", 0, []string{"NODE", "denied by another team"}},
			{"kubectl taint", 0, []string{"NODE untainted"}},
		}},
	}},
	{"the policy cannot be used", policyIsBad, []row{
		{"NodekeepPolicyBad", []shown{{"nodekeep doctor", 1, []string{"error (policy)", "spec.labels.keep[0]"}}}},
	}},
	{"the policy was deleted", policyIsDeleted, []row{
		{"NodekeepPolicyBad", []shown{{"nodekeep doctor", 1, []string{"(policy)", "nodepolicy/default", "not exist"}}}},
	}},
	{"an emergency is declared", emergencyIsDeclared, []row{
		{"NodekeepEmergency", []shown{
			{"nodekeep doctor", 1, []string{"(emergency)", "nodekeep-emergency"}},
			{"nodekeep emergency --end --dry-run", 0, []string{
				`~Emergency: +declared`, `~Open and not verified: +1 \(NODE\)`, `~RoleBinding +nodekeep-emergency +to be deleted`, "Nothing was changed",
			}},
			{"nodekeep emergency --end", 0, []string{"the emergency is ended", "RoleBinding nodekeep-emergency: deleted"}},
		}},
	}},
	{"the guard policies were deleted", guardsAreDeleted, []row{
		{"NodekeepGuardPoliciesLost", []shown{
			{"nodekeep doctor", 1, []string{"(guard-policies)", "nodekeep-guard", "nodekeep-strip"}},
			{"kubectl logs", 0, []string{"guard policies are not in force", "nodekeep-guard"}},
		}},
	}},
	{"the webhook may not write its certificate", webhookHasNoCertificate, []row{
		{"NodekeepCertificateExpired", []shown{
			{"nodekeep doctor", 1, []string{"error (certificate)", "secret/nodekeep-webhook-tls"}},
			{"kubectl logs", 0, []string{"nodekeep-webhook-tls", "forbidden"}},
			{"kubectl describe certificate", unserved, nil},
			{"kubectl patch secret nodekeep-webhook-tls", 0, []string{"secret/nodekeep-webhook-tls patched"}},
			{"nodekeep emergency", 0, []string{`~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
	}},
	{"the webhook may not renew its certificate, which ends soon", certificateEnds, []row{
		{"NodekeepCertificateExpiring", []shown{
			{"kubectl describe certificate", unserved, nil},
			{"kubectl logs", 0, []string{"nodekeep-webhook-tls", "forbidden"}},
		}},
	}},
	{"records were changed while capture was down", recordsTakeLabels, []row{
		{"NodekeepCorrectionsHeld", []shown{
			{"nodekeep list", 0, []string{"~(?m)^NODE .*no: 1 to restore"}}, // column CURRENT
			{"nodekeep show NODE --diff", 1, []string{"rack", "another", "mine"}},
			{"nodekeep accept corrections", 0, []string{"for an hour"}},
			{"nodekeep emergency", 0, []string{`~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
	}},
	{"new rules change a label of every Node", rulesAreHeld, []row{
		{"NodekeepChangesHeld", []shown{
			{"nodekeep doctor", 1, []string{"(label-rules)", "HASH"}},
			{"nodekeep accept rules <hash> --dry-run", 0, []string{"HASH", "on 3 of 3 Nodes"}},
			{"nodekeep accept rules <hash>", 0, []string{"HASH", "~(?i)accepted"}},
		}},
	}},
	{"a label is being renamed, and a Node has both keys", migrationIsOpen, []row{
		{"NodekeepMigrationOpen", []shown{
			{"nodekeep report migrations", 0, []string{"OLD", "NEW", "both keys", "renamed-17", "conflict", "NODE"}},
			{"nodekeep accept migration", 0, []string{"phase: new"}},
		}},
	}},
	{"an inventory moves every Node", inventoryIsHeld, []row{
		{"NodekeepChangesHeld", []shown{
			{"nodekeep doctor", 1, []string{"(inventory)", "racks", "HASH", "3 of 3 Nodes"}},
			{"nodekeep accept rules <hash> --dry-run", 0, []string{"racks"}},
			{"nodekeep accept rules <hash>", 0, []string{"racks", "~(?i)accepted"}},
		}},
	}},
	{"an inventory was deleted", inventoryIsStale, []row{
		{"NodekeepFactsUnknown", []shown{
			{"kubectl describe nodepolicy default", 0, []string{"FactsUnknown", "racks"}},
			{"nodekeep doctor", 1, []string{"(inventory)", "racks"}},
			{"kubectl logs", 0, []string{"racks"}},
		}},
	}},
	{"another client deletes the record of a live Node", recordVanishes, []row{
		{"NodekeepRecordsEdited", []shown{
			{"kubectl logs", 0, []string{"NODE", "written anew"}},
			{"kubectl edit configmap", unserved, nil}, // it opens an editor
		}},
	}},
	{"records may not be deleted", recordsAreKept, []row{
		{"NodekeepRecordsNotCollected", []shown{{"kubectl logs", 0, []string{"configmaps", "forbidden"}}}},
	}},
	{"the webhook may not write records", deletionIsNotRecorded, []row{
		{"NodekeepDeletionsNotRecorded", []shown{{"kubectl logs", 0, []string{"NODE", "forbidden"}}}},
	}},
	{"the webhook may not read records", webhookIsNotReady, []row{
		{"NodekeepReviewsFail", []shown{{"kubectl logs", 0, []string{"configmaps", "forbidden"}}}},
	}},
	{"the inline webhook is not installed any more", inlineIsLost, []row{
		{"NodekeepInlineProofLost", []shown{{"kubectl logs", 0, []string{"protected labels are deferred", "restore-protected.nodekeep.dev"}}}},
	}},
	{"another client changes what a rule sets, again and again", clientsFight, []row{
		{"NodekeepWritersFight", []shown{
			{"kubectl get events", 0, []string{"node/NODE", "tier", "another"}},
			{"kubectl logs", unserved, nil}, // that is for fights between two other clients
			{"kubectl get node", 0, []string{"name: NODE", "manager: another"}},
		}},
	}},
	{"a client changes a label to and fro", labelFlaps, []row{
		{"NodekeepWritersFight", []shown{
			{"kubectl get events", 0, []string{"No resources found"}}, // nodekeep is none of the two
			{"kubectl logs", 0, []string{"NODE", "record written"}},
			{"kubectl get node", 0, []string{"name: NODE", "manager: another"}},
		}},
	}},
	{"a rule makes a value that no label can have", ruleIsInvalid, []row{
		{"NodekeepLabelsRefused", []shown{
			{"kubectl get events", 0, []string{"No resources found"}}, // the API server refuses nothing
			{"kubectl taint", 1, []string{"not found"}},               // no gate waits for it
			{"kubectl get events", 0, []string{"node/NODE", "kernel"}},
		}},
	}},
	{"rules look at devices, and capture may not", devicesAreUnknown, []row{
		{"NodekeepFactsUnknown", []shown{
			{"kubectl describe nodepolicy default", 0, []string{"FactsUnknown", "resourceslices"}},
			{"nodekeep doctor", unserved, nil}, // that and the log are for inventories
			{"kubectl logs", unserved, nil},
		}},
	}},
	{"a Node lacks a required label", labelIsMissing, []row{
		{"NodekeepRequiredLabelsMissing", []shown{{"nodekeep report compliance", 0, []string{"required", "tier", "NODE"}}}},
	}},
	{"Nodes fail their checks", nodesFail, []row{
		{"NodekeepRemovalsStopped", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE", "dns"}},
			{"kubectl get events", 0, []string{"node/NODE", "RemovalHeld"}},
			{"nodekeep doctor", 1, []string{"nodekeep-verify-removal"}},
		}},
		{"NodekeepCheckFails", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE", "dns", "Timeout"}},
			{"kubectl get events", 0, []string{"No resources found"}}, // no verified Node fails it
		}},
		{"NodekeepNodesUnverified", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE", "dns", "Timeout"}},
			{"kubectl get pods", 0, []string{"NODE"}},
			{"kubectl taint", 0, []string{"NODE untainted"}},
		}},
	}},
	{"a workload runs on a Node that is to be removed", podHoldsRemoval, []row{
		{"NodekeepRemovalsHeld", []shown{{"nodekeep list --waiting verification", 0, []string{"NODE", "dns", "Pods", "default/workload"}}}},
	}},
	{"a Node that failed was removed", nodeIsRemoved, []row{
		{"NodekeepNodesRemoved", []shown{
			{"nodekeep list --waiting verification", 0, []string{"Removed lately", "NODE"}},
			{"kubectl get events", 0, []string{"NODE", "NodeRemoved", "dns"}},
			{"kubectl delete clusterrolebinding", 0, []string{"nodekeep-verify-removal"}},
		}},
	}},
	{"most Nodes of a profile fail", tooManyFail, []row{
		{"NodekeepRemovalsStopped", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE", "dns", "TooMany"}},
			{"kubectl get events", 0, []string{"node/NODE", "RemovalHeld", "stopAbove"}},
			{"nodekeep doctor", unserved, nil}, // nothing is missing
		}},
	}},
	{"verified Nodes fail the check, too", failureIsShared, []row{
		{"NodekeepCheckFails", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE", "dns"}},
			{"kubectl get events", 0, []string{"SharedFailure", "node/verified-"}},
		}},
	}},
	{"no replica of the controller of verification runs", verifyIsDown, []row{
		{"NodekeepVerifyAbsent", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE"}},
			{"kubectl get pods", 0, []string{"nodekeep-verify ", "CrashLoopBackOff"}},
			{"nodekeep emergency", 0, []string{`~behind a verification taint: +1 \(NODE\)`, `~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
	}},
	{"the controller of verification may not write its Lease", verifyMayNotLead, []row{
		{"NodekeepVerifyNoLeader", []shown{
			{"nodekeep list --waiting verification", 0, []string{"NODE"}},
			{"kubectl get lease nodekeep-verify", 0, []string{`~(?m)^nodekeep-verify +[0-9hms]+$`}}, // it has no holder
			{"kubectl logs", 0, []string{"leases", "forbidden"}},
			{"nodekeep emergency", 0, []string{`~behind a verification taint: +1 \(NODE\)`, `~RoleBinding +nodekeep-emergency +to be created`, "Nothing was changed"}},
		}},
	}},
}

// foreignLabels are the alerts with commands of kubectl alone that have no situation, and why. TestOnARealControlPlane types these commands.
var foreignLabels = map[string]string{
	"NodekeepWebhookSlow":    "no kubelet serves what kubectl top asks for",
	"NodekeepCaptureSlow":    "the command lists the flow control of the API server, whatever is slow",
	"NodekeepRecordTooLarge": "findsTheLargestRecord has its state",
}

// unserved stands in place of the exit code of a command that no test cluster serves, or that is for another cause of the alert.
const unserved = -1

func TestEveryAlertWithACommandHasASituation(t *testing.T) {
	rows := map[string]bool{}
	for _, s := range situations {
		for _, r := range s.alerts {
			rows[r.alert] = true
		}
	}
	for _, a := range alerts(t).alerts() {
		lines, ok := typed(a), false
		for _, line := range lines {
			ok = ok || strings.HasPrefix(line, "nodekeep ")
			assert.False(t, strings.HasPrefix(line, "nodekeep ") && !strings.HasPrefix(line, "nodekeep -n "), "%s: %s looks at the namespace by default", a.Alert, line)
		}
		_, excused := foreignLabels[a.Alert]
		assert.False(t, excused && (ok || rows[a.Alert]), "%s must have a situation, and no excuse", a.Alert)
		assert.True(t, len(lines) == 0 || rows[a.Alert] || excused, "%s names the commands %q, and has no situation", a.Alert, lines)
		delete(rows, a.Alert)
	}
	assert.Empty(t, rows, "there are no such alerts")
}

// typed returns the command lines that an alert's description has.
func typed(a alert) (lines []string) {
	for _, found := range regexp.MustCompile("`((?:nodekeep|kubectl) [^`]*)`").FindAllStringSubmatch(a.Annotations["description"], -1) {
		lines = append(lines, found[1])
	}
	return lines
}

func TestEveryCommandOfAnAlertShowsWhatTheAlertIsAbout(t *testing.T) {
	n := startNight(t)
	descriptions := map[string]alert{}
	for _, a := range alerts(t).alerts() {
		descriptions[a.Alert] = a
	}
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			n.afresh(t)
			tried := false
			s.begin(t, n, func(known facts) {
				tried = true
				for _, r := range s.alerts {
					n.tries(t, descriptions[r.alert], r.shows, known)
				}
			})
			assert.True(t, tried)
			t.Logf("took %s", time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// tries types each command of an alert, and looks at what it shows.
func (n night) tries(t *testing.T, a alert, shows []shown, known facts) {
	t.Helper()
	lines := typed(a)
	if !assert.Len(t, shows, len(lines), "%s: the commands of its description are %q", a.Alert, lines) {
		return
	}
	head := ""
	for i, want := range shows {
		line := lines[i]
		if !assert.True(t, strings.HasPrefix(strings.NewReplacer(" -n {{ $labels.namespace }}", "", " -n <namespace of nodekeep>", "").Replace(line), want.line),
			"%s: the row has %q, and the description %q", a.Alert, want.line, line) || want.code == unserved {
			continue
		}
		if strings.Contains(line, "<hash>") {
			assert.Contains(t, head, known["HASH"], "%s: no command before shows what is filled into %q", a.Alert, line)
		}
		answer := n.shows(t, a.Alert, n.filled(line, a.Alert, known), want, known)
		head += answer.Out + answer.ErrOut
	}
}

// shows types a command until it shows what it should: a command may show what was so a moment ago. One that changes something is typed once.
func (n night) shows(t *testing.T, alert, line string, want shown, known facts) (answer harness.Answer) {
	t.Helper()
	for end := time.Now().Add(settles); ; time.Sleep(500 * time.Millisecond) {
		answer = n.Shell(t, "", "", line)
		lacks := slices.DeleteFunc(slices.Clone(want.says), func(says string) bool {
			if pattern, ok := strings.CutPrefix(known.in(says), "~"); ok {
				return regexp.MustCompile(pattern).MatchString(answer.Out)
			}
			return strings.Contains(answer.Out+answer.ErrOut, known.in(says))
		})
		if len(lacks) == 0 && answer.Code == want.code {
			return answer
		}
		if strings.HasPrefix(line, "echo yes") || time.Now().After(end) {
			t.Errorf("%s: %s\nends with %d, not %d, and lacks %q:\n%s%s", alert, line, answer.Code, want.code, lacks, answer.Out, answer.ErrOut)
			return answer
		}
	}
}

// in puts facts in place of what stands for them.
func (f facts) in(text string) string {
	for name, value := range f {
		text = strings.ReplaceAll(text, name, value)
	}
	return text
}

// logs is how an alert reads the log of processes.
var logs = regexp.MustCompile(`kubectl -n \S+ logs -l app\.kubernetes\.io/component=(\w+) --tail=(-1|\d+)`)

// filled returns a command line as an operator types it. No kubelet serves logs here: what the process
// has logged in this situation stands in place of them. An emergency is only
// planned, unless it is the alert's: it would end the situation.
func (n night) filled(line, alert string, known facts) string {
	line = strings.NewReplacer("{{ $labels.namespace }}", harness.Namespace, "<namespace of nodekeep>", harness.Namespace,
		"<name>", known["NODE"], "NODE", known["NODE"], "<hash>", known["HASH"], "<old>=<new>", known["OLD"]+"="+known["NEW"]).Replace(line)
	if read := logs.FindStringSubmatch(line); read != nil {
		process := "nodekeep-" + read[1]
		line = strings.Replace(line, read[0], fmt.Sprintf("tail -c +%d '%s' | tail -n %s", n.logged[process]+1, n.Cluster.LogPath(process), strings.Replace(read[2], "-1", "+1", 1)), 1)
	}
	words := strings.Fields(line)
	contains := func(all ...string) bool {
		return !slices.ContainsFunc(all, func(word string) bool { return !slices.Contains(words, word) })
	}
	switch {
	case contains("--dry-run"):
	case contains("emergency") && alert != "NodekeepEmergency":
		line += " --dry-run"
	case contains("emergency"), contains("accept"):
		line = "echo yes | " + line
	case words[0] == "kubectl" && (contains("delete") || contains("patch") || contains("taint")):
		line += " --dry-run=server"
	}
	return line
}

// withRules returns a policy with rules for labels.
func withRules(rules string) string { return policytest.Manifest("labels: {rules: [" + rules + "]}\n") }
