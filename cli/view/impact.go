package view

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/policy"
)

// PolicyCheck is what is to be said of the manifest of a NodePolicy.
type PolicyCheck struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Errors   policy.FileErrors `json:"errors,omitempty"`
	Warnings []string          `json:"warnings,omitempty"` // of a valid policy
	// ComparedWith names the policy in force, where there was a comparison.
	ComparedWith string         `json:"comparedWith,omitempty"`
	Impact       *impact.Impact `json:"impact,omitempty"`
}

// Document returns the answer as text, without the errors.
func (c PolicyCheck) Document(time.Time) Document {
	var d Document
	d.addFact("Policy", c.File+" is valid")
	for _, warning := range c.Warnings {
		d.addFact("Warning", warning)
	}
	d.addFact("Compared with", c.ComparedWith)
	if c.Impact != nil {
		d.addImpact(*c.Impact)
	}
	return d
}

// addImpact adds what a policy would change.
func (d *Document) addImpact(i impact.Impact) {
	d.addFact("Nodes", fmt.Sprintf("%d, and %s of deleted Nodes", i.Nodes, Counted(i.Gone, "record")))
	for _, obstacle := range i.Profiles {
		d.addFact(map[bool]string{true: "Note", false: "Warning"}[obstacle.Hinders == impact.HindersNone], obstacle.Text())
	}
	for _, missing := range i.Missing {
		d.addFact("Note", missing.Text())
	}
	if i.Unreadable > 0 {
		d.addFact("Left out", fmt.Sprintf("%d records that cannot be read", i.Unreadable))
	}
	d.addFact("Gate", "at their next registration, "+comparedWith(i.Waiting, Counted(i.Waiting.Planned, "Node")+" would wait behind it"))
	due := comparedWith(i.Due, Counted(i.Due.Planned, "record")+" of deleted Nodes would be removed")
	if i.Due.Planned > 0 {
		due += fmt.Sprintf("; the next sweep would remove %d, where --retention-fraction is %g", i.SweepsAtMost, gc.DefaultSweepFraction)
	}
	d.addFact("Retention", due)
	d.addFact("Kept", keptText(i.Kept))
	if !i.Changed() {
		d.addFact("Changes", "none")
	}
	settings := tableOf("Setting", "Now", "Then")
	for _, setting := range i.Settings {
		now, planned := excerpts(setting)
		addRow(settings, setting.Field, now, planned)
	}
	changes := tableOf("Change", "Item", "Key", "Nodes", "Why", "+Such as")
	for _, change := range i.Changes {
		addRow(changes, changeText(change.Kind), nodestate.KindOf(change.Item), change.Item, change.Nodes, orDash(change.Reason), strings.Join(change.First, ","))
	}
	d.Tables = append(d.Tables, settings, changes, brokenTable(i.Broken), keptTable(i.Kept), notKeptTable(i.NotKept))
	if i.MoreKept > 0 {
		d.addFact("Not listed", fmt.Sprintf("%d more labels and taints that are kept", i.MoreKept))
	}
	if i.MoreNotKept > 0 {
		d.addFact("Not listed", fmt.Sprintf("%d more labels and taints that are not kept", i.MoreNotKept))
	}
	if i.MoreBroken > 0 {
		d.addFact("Not listed", fmt.Sprintf("%d more violations of governance", i.MoreBroken))
	}
	d.addRulesImpact(i.LabelRules)
	if i.Omitted > 0 {
		d.addFact("Not listed", fmt.Sprintf("%d more changes of one Node each", i.Omitted))
	}
}

// changeText returns a kind of change in words.
func changeText(kind impact.ChangeKind) string {
	return map[impact.ChangeKind]string{
		impact.Kept:                     "kept from now on",
		impact.Dropped:                  "no longer kept",
		impact.Restored:                 "restored in the CREATE",
		impact.Deferred:                 "restored behind the gate",
		impact.RestoredInline:           "restored in the CREATE where proved",
		impact.NotRestored:              "recorded, not restored",
		impact.TaintAdded:               "added by a rule",
		impact.TaintRemoved:             "removed",
		impact.Blocked:                  "wanted by a rule, but another client has set it",
		impact.RegistrationTaintAdded:   "added at registration",
		impact.RegistrationTaintDropped: "no longer added at registration",
	}[kind]
}

// comparedWith returns what would be under the other policy, compared with the policy in force.
func comparedWith(c impact.NowAndPlanned, sentence string) string {
	if c.Now == c.Planned {
		return sentence + ", as under the policy in force"
	}
	return fmt.Sprintf("%s; under the policy in force, %d", sentence, c.Now)
}

// brokenTable names the first Nodes: the new ones, where there are some.
func brokenTable(broken []impact.BrokenRule) *metav1.Table {
	table := tableOf("Breaks", "Kind", "Mode", "Nodes", "New", "Such as")
	for _, r := range broken {
		first := r.First
		if r.New > 0 {
			first = r.FirstNew
		}
		addRow(table, r.Rule, r.Kind, r.Mode, r.Nodes, r.New, strings.Join(first, ","))
	}
	return table
}

// longestSetting bounds what a table shows of a value; the other formats have it all.
const longestSetting = 200

// excerpts returns both values as a table shows them: long ones from shortly before the first difference on.
func excerpts(c impact.SettingChange) (now, planned string) {
	common := 0
	for common < min(len(c.Now), len(c.Planned)) && c.Now[common] == c.Planned[common] {
		common++
	}
	from := 0
	if max(len(c.Now), len(c.Planned)) > longestSetting && common > longestSetting/4 {
		from = common - longestSetting/4
	}
	excerpt := func(text string) string {
		begun := ""
		if from > 0 && len(text) > from {
			begun, text = "...", policy.Text(text[from:])
		}
		if short := policy.Shortened(text, longestSetting); short != text {
			text = short + "..."
		}
		return orDash(begun + text)
	}
	return excerpt(c.Now), excerpt(c.Planned)
}
