package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
)

// Document is the answer as text.
func (e Explanation) Document(now time.Time) Document {
	var d Document
	d.with("Node", e.Node)
	d.with("Status", string(e.Status))
	d.with("Problem", e.Problem)
	d.with("Verification", e.Unverified)
	d.with("Follows", e.Follows.text())
	registers := "Registration" // of a review
	if e.Status != "" {
		registers = "If it registers"
	}
	d.with(registers, e.Registration.text(e.Status != ""))
	if e.Capture != nil {
		d.with("Capture now", e.Capture.text())
	}
	d.with("Governance", strings.Join(e.Violations, "; "))
	if e.RulesHeld != "" {
		d.with("Rules held", strings.TrimSuffix(HeldSentence(e.RulesHeld, e.RulesHeldUntil), ", "))
	}
	table := tableOf("Item", "Key", "Node", "Record", registers, "Kept", "Why", "+Managers")
	for _, item := range e.Items {
		add(table, item.Kind, item.Item, shown(item.OnNode), shown(item.Remembered), item.Registration, yesNo(item.Kept), strings.Join(append([]string{item.Why}, item.Claims...), "; "), orNone(strings.Join(item.Managers, ",")))
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

// text is what becomes of a review, or what would become of it if the Node registered now.
func (r ExplainedReview) text(now bool) string {
	text := "by " + cmp.Or(r.User, "nobody") + ": " + cmp.Or(outcomes()[r.Outcome], strings.ReplaceAll(r.Outcome, "_", " "))
	switch {
	case r.Passes != "":
		text = "would pass as it is: " + r.Passes
	case r.Outcome == "deferred" && !r.Gated: // in the second pass
		text = "by " + cmp.Or(r.User, "nobody") + ": where protected: inline is proved, the webhook would restore all that is missing. " +
			"Otherwise capture would restore protected labels behind the gate"
	case r.Outcome == "deferred":
		text += ". The gate would stay until then"
	case r.Gated:
		text += ". The gate would stay until capture removes it"
	default:
		text += ". The webhook would remove the gate"
	}
	if now {
		return text
	}
	return strings.NewReplacer("would restore", "restores", "would stay", "stays", "would remove", "removes", "would be missing", "is missing", "would pass", "passes").Replace(text)
}

// outcomes are those of nodekeep_webhook_reviews_total, as what would happen at a registration.
func outcomes() map[string]string {
	return map[string]string{
		"restored":          "the webhook would restore all that is missing",
		"deferred":          "the webhook would restore what it may, and capture the rest",
		"restored_inline":   "the webhook would restore all that is missing, protected labels included",
		"nothing_missing":   "nothing would be missing",
		"unreadable_record": "the webhook would restore nothing, since the record cannot be read",
		"other_machine":     "the webhook would restore nothing, since another machine has the name",
		"too_large":         "the webhook would restore no labels, since the Node would be too large",
	}
}

// Under is the explanation with what is known of captures: what one would do is not done while none runs.
func (e Explanation) Under(captures Captures) Explanation {
	if e.Capture != nil {
		known := *e.Capture
		known.NoneRuns = captures.down()
		e.Capture = &known
	}
	return e
}

// text is what capture does, or would do if one ran.
func (c ExplainedCapture) text() string {
	switch {
	case c.NoneRuns == "":
		return c.does()
	case c.Step == string(capture.Nothing):
		return c.NoneRuns + "; one would have nothing to do"
	default:
		return c.NoneRuns + ", so this is not done: " + c.does()
	}
}

func (c ExplainedCapture) does() string {
	var parts []string
	add := func(what, items string) {
		if items != "" {
			parts = append(parts, what+" "+items)
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
	case c.Step == string(capture.Nothing):
		return "has nothing to do"
	default:
		return "writes the record (" + strings.ReplaceAll(c.Step, "_", " ") + ")"
	}
}
