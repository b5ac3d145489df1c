package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy"
)

// PolicyCheck is what is to be said of the manifest of a NodePolicy.
type PolicyCheck struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Errors   policy.FileErrors `json:"errors,omitempty"`
	Warnings []string          `json:"warnings,omitempty"` // of a valid policy
	// ComparedWith names the policy in force, where there was a comparison.
	ComparedWith string  `json:"comparedWith,omitempty"`
	Impact       *Impact `json:"impact,omitempty"`
}

// Document returns the answer as text, without the errors.
func (c PolicyCheck) Document(time.Time) Document {
	var d Document
	d.with("Policy", c.File+" is valid")
	for _, warning := range c.Warnings {
		d.with("Warning", warning)
	}
	d.with("Compared with", c.ComparedWith)
	if c.Impact != nil {
		c.Impact.document(&d)
	}
	return d
}

// Impact is what a policy would change for the Nodes of a cluster, compared with the policy in force.
type Impact struct {
	Nodes int `json:"nodes"` // that are there
	Gone  int `json:"gone"`  // records of deleted Nodes
	// Settings are all that the two policies say differently, whether a Node shows it or not.
	Settings []impact.SettingChange `json:"settings"`
	Changes  []Change               `json:"changes"`
	// Kept is what Nodes show and this policy keeps. It begins with what no known client of operators has set.
	Kept []JudgedItem `json:"kept"`
	// MoreKept counts what is left out because so much is listed already.
	MoreKept int `json:"moreKept,omitempty"`
	// NotKept is what Nodes show and this policy does not keep, whether the policy in force keeps it or not.
	NotKept []JudgedItem `json:"notKept"`
	// MoreNotKept counts what is left out because so much is listed already.
	MoreNotKept int `json:"moreNotKept,omitempty"`
	// Broken are the rules of governance that Nodes would break.
	Broken []BrokenRule `json:"broken,omitempty"`
	// MoreBroken counts what is left out because so much is listed already.
	MoreBroken int `json:"moreBroken,omitempty"`
	// LabelRules is what labels.rules change.
	LabelRules RulesImpact `json:"labelRules"`
	// More counts what is left out because so many changes are listed already, each Node by itself.
	More int `json:"more,omitempty"`
	// Waiting counts the Nodes that would keep the gate after their next registration. They wait until capture is done or an operator decides.
	Waiting Count `json:"waiting"`
	// Due counts the records that sweeps collect.
	Due Count `json:"due"`
	// Profiles is what keeps Nodes from passing the checks of this policy.
	Profiles []impact.Obstacle `json:"profiles,omitempty"`
	// Missing are facts that rules ask for and that no Node has.
	Missing []impact.MissingFact `json:"missing,omitempty"`
	// SweepsAtMost is how many of them the next sweep collects at most, where capture is not told otherwise.
	SweepsAtMost int `json:"sweepsAtMost"`
	// Unreadable counts records that nothing is known of.
	Unreadable int `json:"unreadable,omitempty"`
}

// Count is a number under the policy in force, and under the other one.
type Count struct {
	Now  int `json:"now"`
	Then int `json:"then"`
}

// Change is the change of one label or taint under the policy. It counts all Nodes with the same change for the same reason.
type Change struct {
	changed
	NodeCount
}

// changed is what changes, and why.
type changed struct {
	Kind ChangeKind `json:"change"`
	Item string     `json:"item"`          // a label's key, a taint's key and effect, or a taint
	Why  string     `json:"why,omitempty"` // in the words of the policy
}

// ChangeKind defines what changes.
type ChangeKind string

// The kinds of changes.
const (
	Kept       ChangeKind = "kept"       // remembered from now on
	Dropped    ChangeKind = "dropped"    // no longer recorded or restored; what is recorded stays
	Restored   ChangeKind = "restored"   // at the next registration, in the CREATE itself
	Deferred   ChangeKind = "deferred"   // at the next registration, behind the gate
	Inlined    ChangeKind = "inlined"    // at the next registration, in the CREATE itself where that is proved to work
	NotGiven   ChangeKind = "notGiven"   // recorded, and not restored at the next registration
	PutOn      ChangeKind = "putOn"      // a rule's taint, on the Node that is there
	TakenOff   ChangeKind = "takenOff"   // a rule's taint, from the Node that is there
	Blocked    ChangeKind = "blocked"    // a rule's taint that cannot be added: the Node has one of another client
	Registered ChangeKind = "registered" // a taint, from the next registration on
	NotAnyMore ChangeKind = "notAnyMore" // a taint that registrations add today
)

type kindText struct {
	kind ChangeKind
	text string
}

// kinds returns all kinds, in the order in which they are shown, in words.
func kinds() []kindText {
	return []kindText{
		{Kept, "kept from now on"},
		{Dropped, "no longer kept"},
		{Restored, "restored in the CREATE"},
		{Deferred, "restored behind the gate"},
		{Inlined, "restored in the CREATE where proved"},
		{NotGiven, "recorded, not restored"},
		{PutOn, "added by a rule"},
		{TakenOff, "removed"},
		{Blocked, "wanted by a rule, but another client has set it"},
		{Registered, "added at registration"},
		{NotAnyMore, "no longer added at registration"},
	}
}

// document adds its text.
func (i Impact) document(d *Document) {
	d.with("Nodes", fmt.Sprintf("%d, and %s of deleted Nodes", i.Nodes, Counted(i.Gone, "record")))
	for _, obstacle := range i.Profiles {
		d.with(map[bool]string{true: "Note", false: "Warning"}[obstacle.Hinders == impact.HindersNone], obstacle.Text())
	}
	for _, missing := range i.Missing {
		d.with("Note", missing.Text())
	}
	if i.Unreadable > 0 {
		d.with("Left out", fmt.Sprintf("%d records that cannot be read", i.Unreadable))
	}
	d.with("Gate", "at their next registration, "+i.Waiting.text(Counted(i.Waiting.Then, "Node")+" would wait behind it"))
	due := i.Due.text(Counted(i.Due.Then, "record") + " of deleted Nodes would be removed")
	if i.Due.Then > 0 {
		due += fmt.Sprintf("; the next sweep would remove %d, where --retention-fraction is %g", i.SweepsAtMost, gc.DefaultSweepFraction)
	}
	d.with("Retention", due)
	d.with("Kept", keptText(i.Kept))
	if !i.Changed() {
		d.with("Changes", "none")
	}
	settings := tableOf("Setting", "Now", "Then")
	for _, setting := range i.Settings {
		now, then := excerpts(setting)
		add(settings, setting.Field, now, then)
	}
	changes := tableOf("Change", "Item", "Key", "Nodes", "Why", "+Such as")
	for _, change := range i.Changes {
		add(changes, kinds()[change.Kind.order()].text, kindOf(change.Item), change.Item, change.Nodes, orNone(change.Why), strings.Join(change.First, ","))
	}
	d.Tables = append(d.Tables, settings, changes, i.brokenTable(), keptTable(i.Kept), notKeptTable(i.NotKept))
	if i.MoreKept > 0 {
		d.with("Not listed", fmt.Sprintf("%d more labels and taints that are kept", i.MoreKept))
	}
	if i.MoreNotKept > 0 {
		d.with("Not listed", fmt.Sprintf("%d more labels and taints that are not kept", i.MoreNotKept))
	}
	if i.MoreBroken > 0 {
		d.with("Not listed", fmt.Sprintf("%d more violations of governance", i.MoreBroken))
	}
	i.LabelRules.document(d)
	if i.More > 0 {
		d.with("Not listed", fmt.Sprintf("%d more changes of one Node each", i.More))
	}
}

func (c *Count) see(now, then bool) {
	if now {
		c.Now++
	}
	if then {
		c.Then++
	}
}

// text returns what would be under the other policy, compared with the policy in force.
func (c Count) text(then string) string {
	if c.Now == c.Then {
		return then + ", as under the policy in force"
	}
	return fmt.Sprintf("%s; under the policy in force, %d", then, c.Now)
}

// Changed reports whether the policy changes anything.
func (i Impact) Changed() bool {
	return len(i.Settings)+len(i.Changes) > 0 || i.LabelRules.changed() || i.Due.Now != i.Due.Then || i.Waiting.Now != i.Waiting.Then
}

// order returns the place of a kind among all.
func (k ChangeKind) order() int {
	return slices.IndexFunc(kinds(), func(known kindText) bool { return known.kind == k })
}

func compareChanges(a, b Change) int {
	return cmp.Or(
		cmp.Compare(a.Kind.order(), b.Kind.order()),
		cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Why, b.Why))
}

// longestSetting bounds what a table shows of a value; the other formats have it all.
const longestSetting = 200

// excerpts returns both values as a table shows them: long ones from shortly before the first difference on.
func excerpts(c impact.SettingChange) (now, then string) {
	same := 0
	for same < min(len(c.Now), len(c.Then)) && c.Now[same] == c.Then[same] {
		same++
	}
	from := 0
	if max(len(c.Now), len(c.Then)) > longestSetting && same > longestSetting/4 {
		from = same - longestSetting/4
	}
	excerpt := func(text string) string {
		begun := ""
		if from > 0 && len(text) > from {
			begun, text = "...", policy.Text(text[from:])
		}
		if short := policy.Shortened(text, longestSetting); short != text {
			text = short + "..."
		}
		return orNone(begun + text)
	}
	return excerpt(c.Now), excerpt(c.Then)
}
