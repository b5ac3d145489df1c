package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/nodestate"
)

// Document returns the answer as text.
func (e Explanation) Document(now time.Time) Document {
	var d Document
	d.addFact("Node", e.Node)
	d.addFact("Status", string(e.Status))
	d.addFact("Problem", e.Problem)
	d.addFact("Verification", e.Unverified)
	d.addFact("Follows", followsText(e.Follows))
	registers := e.registrationTitle()
	if e.Registration.Emergency {
		d.addFact("Emergency", "declared: an API server that sees it does not call the webhook for a new Node, and puts no gate on it")
	}
	d.addFact(registers, e.Registration.text(e.Status != "" || e.Registration.Emergency))
	if e.Capture != nil {
		d.addFact("Capture now", e.Capture.text())
	}
	d.addFact("Governance", strings.Join(e.Violations, "; "))
	if e.RulesHeld != "" {
		d.addFact("Rules held", strings.TrimSuffix(HeldSentence(e.RulesHeld, e.RulesHeldUntil), ", "))
	}
	table := tableOf("Item", "Key", "Node", "Record", registers, "Kept", "Why", "+Managers")
	for _, item := range e.Items {
		addRow(table, item.Kind, item.Item, nodestate.FormatValue(item.OnNode), nodestate.FormatValue(item.Remembered), item.Registration, yesNo(item.Kept), strings.Join(append([]string{item.Reason}, item.Claims...), "; "), orDash(strings.Join(item.Managers, ",")))
	}
	d.Tables = []*metav1.Table{table}
	if len(e.Rules) > 0 {
		d.Tables = append(d.Tables, rulesTable(e.Rules))
	}
	if len(e.Inventories) > 0 {
		d.Tables = append(d.Tables, inventoryTable(e.Inventories, now))
	}
	return d
}

// registrationTitle returns when the registration is that is explained.
func (e Explanation) registrationTitle() string {
	switch {
	case e.Registration.Emergency:
		return "After the emergency"
	case e.Status != "":
		return "If it registers"
	default: // of a review
		return "Registration"
	}
}

// otherMachine is the outcome of a review where the record is another machine's.
const otherMachine = "other_machine"

// text returns what becomes of a review or, if conditional, what would become of it.
func (r ExplainedReview) text(conditional bool) string {
	verb := func(infinitive string, _ string) string { return "would " + infinitive }
	if !conditional {
		verb = func(_ string, indicative string) string { return indicative }
	}
	if r.PassReason != "" {
		return verb("pass", "passes") + " as it is: " + r.PassReason
	}
	return "by " + cmp.Or(r.User, "nobody") + ": " + r.restoreText(verb) + r.gate(verb)
}

// restoreText returns what the webhook does about labels and taints, by the outcome.
func (r ExplainedReview) restoreText(conjugate func(infinitive, indicative string) string) string {
	text := "the webhook " + conjugate("restore", "restores") + " nothing, since "
	switch r.Outcome {
	case "restored":
		return "the webhook " + conjugate("restore", "restores") + " all that there is to restore"
	case "deferred":
		switch {
		case r.AwaitsOperator:
			return "the webhook " + conjugate("restore", "restores") + " what it may, and the rest " + conjugate("wait", "waits") + " for nodekeep accept record"
		case !r.Gated: // in the second pass
			return "where protected: inline is proved, the webhook " + conjugate("set", "sets") + " all that is missing, and " + conjugate("leave", "leaves") + " no gate. " +
				"Otherwise capture " + conjugate("set", "sets") + " protected labels behind the gate"
		}
		return "the webhook " + conjugate("set", "sets") + " what it may, and capture the rest"
	case "nothing_missing":
		return "there " + conjugate("be", "is") + " nothing to restore"
	case "unreadable_record":
		return text + "the record cannot be read"
	case otherMachine:
		return text + "another machine has the name"
	case "too_large":
		return "the webhook " + conjugate("add", "adds") + " no labels and taints, since the Node " + conjugate("be", "is") + " too large with them"
	default:
		return strings.ReplaceAll(r.Outcome, "_", " ")
	}
}

// gate returns what becomes of the gate. An operator decides where capture does not remove it.
func (r ExplainedReview) gate(verb func(infinitive, indicative string) string) string {
	suffix := " until capture removes it"
	switch {
	case r.Outcome == "unreadable_record":
		suffix = " while the record cannot be read"
	case r.AwaitsOperator:
		suffix = " until nodekeep accept record"
	}
	switch {
	case r.Outcome == "deferred" && !r.Gated: // that is said already
		return ""
	case r.Gated && r.CameGated:
		return ". The gate " + verb("stay", "stays") + suffix
	case r.Gated:
		return ". The webhook " + verb("put", "puts") + " the gate on, and it " + verb("stay", "stays") + suffix
	case r.CameGated:
		return ". The webhook " + verb("remove", "removes") + " the gate"
	default:
		return ". The Node " + verb("have", "has") + " no gate"
	}
}

// WithCaptureStatus returns the explanation with what is known of captures. While none leads, it adds that nothing is done.
func (e Explanation) WithCaptureStatus(captures CaptureStatus) Explanation {
	if e.Capture != nil {
		known := *e.Capture
		known.Outage = captures.outage()
		e.Capture = &known
	}
	return e
}

// text returns what capture does, or would do if one ran.
func (c ExplainedCapture) text() string {
	switch {
	case c.Outage == "":
		return c.action()
	case c.Step == string(capture.NoStep):
		return c.Outage + "; one would have nothing to do"
	default:
		return c.Outage + ", so this is not done: " + c.action()
	}
}

func (c ExplainedCapture) action() string {
	var parts []string
	add := func(verb, items string) {
		if items != "" {
			parts = append(parts, verb+" "+items)
		}
	}
	add("restores", listOf(c.Restore))
	add("corrects", listOf(c.Correct))
	add("sets by rules", listOf(c.RuleSets))
	add("removes", strings.Join(slices.Concat(c.Remove, c.RuleRemoves, c.RemoveTaints), ", "))
	add("adds", strings.Join(c.AddTaints, ", "))
	if c.LiftGate {
		parts = append(parts, "lifts the gate")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case c.Step == string(capture.NoStep):
		return "has nothing to do"
	case c.Step == string(capture.StepNoteBoot):
		return "notes the boot"
	default:
		return "writes the record (" + strings.ReplaceAll(c.Step, "_", " ") + ")"
	}
}

// followsText returns what a Node without a record follows.
func followsText(f *nodestate.FollowDecision) string {
	switch {
	case f == nil:
		return ""
	case f.Unknown:
		return f.Reason
	case len(f.Taints) > 0:
		return "taints alone (" + strings.Join(f.Taints, ", ") + "): " + f.Reason
	case f.Node == "":
		return "nothing: " + f.Reason
	case len(f.Waits) == 0:
		return "the record of node " + f.Node + ": " + f.Reason
	default:
		return "the record of node " + f.Node + ": " + f.Reason + "; waits for nodekeep accept record then: " + strings.Join(f.Waits, ", ")
	}
}
