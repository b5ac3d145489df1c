package impact

import (
	"cmp"
	"slices"
)

// Impact is what a policy would change for the Nodes of a cluster, compared with the policy in force.
type Impact struct {
	Nodes int `json:"nodes"` // that are there
	Gone  int `json:"gone"`  // records of deleted Nodes
	// Settings are all that the two policies say differently, whether a Node shows it or not.
	Settings []SettingChange `json:"settings"`
	Changes  []Change        `json:"changes"`
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
	// Omitted counts what is left out because so many changes are listed already, each Node by itself.
	Omitted int `json:"more,omitempty"`
	// Waiting counts the Nodes that would keep the gate after their next registration. They wait until capture is done or an operator decides.
	Waiting NowAndPlanned `json:"waiting"`
	// Due counts the records that sweeps collect.
	Due NowAndPlanned `json:"due"`
	// Profiles is what keeps Nodes from passing the checks of this policy.
	Profiles []Obstacle `json:"profiles,omitempty"`
	// Missing are facts that rules ask for and that no Node has.
	Missing []MissingFact `json:"missing,omitempty"`
	// SweepsAtMost is how many of the due records the next sweep collects at most, where capture is not told otherwise.
	SweepsAtMost int `json:"sweepsAtMost"`
	// Unreadable counts records that nothing is known of.
	Unreadable int `json:"unreadable,omitempty"`
}

// NowAndPlanned is a number under the policy in force, and under the other one.
type NowAndPlanned struct {
	Now     int `json:"now"`
	Planned int `json:"planned"`
}

// Change is the change of one label or taint under the policy. It counts all Nodes with the same change for the same reason.
type Change struct {
	changeKey
	NodeCount
}

// changeKey is what changes, and why.
type changeKey struct {
	Kind   ChangeKind `json:"change"`
	Item   string     `json:"item"`          // a label's key, a taint's key and effect, or a taint
	Reason string     `json:"why,omitempty"` // in the words of the policy
}

// ChangeKind defines what changes.
type ChangeKind string

// The kinds of changes.
const (
	Kept                     ChangeKind = "kept"                     // remembered from now on
	Dropped                  ChangeKind = "dropped"                  // no longer recorded or restored; what is recorded stays
	Restored                 ChangeKind = "restored"                 // at the next registration, in the CREATE itself
	Deferred                 ChangeKind = "deferred"                 // at the next registration, behind the gate
	RestoredInline           ChangeKind = "restoredInline"           // at the next registration, in the CREATE itself where that is proved to work
	NotRestored              ChangeKind = "notRestored"              // recorded, and not restored at the next registration
	TaintAdded               ChangeKind = "taintAdded"               // a rule's taint, on the Node that is there
	TaintRemoved             ChangeKind = "taintRemoved"             // a rule's taint, from the Node that is there
	Blocked                  ChangeKind = "blocked"                  // a rule's taint that cannot be added: the Node has one of another client
	RegistrationTaintAdded   ChangeKind = "registrationTaintAdded"   // a taint, from the next registration on
	RegistrationTaintDropped ChangeKind = "registrationTaintDropped" // a taint that registrations add today
)

func (c *NowAndPlanned) add(now, planned bool) {
	if now {
		c.Now++
	}
	if planned {
		c.Planned++
	}
}

// Changed reports whether the policy changes anything.
func (i Impact) Changed() bool {
	return len(i.Settings)+len(i.Changes) > 0 || i.LabelRules.Changed() || i.Due.Now != i.Due.Planned || i.Waiting.Now != i.Waiting.Planned
}

// ChangeKinds returns all kinds, in the order in which they are shown.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{Kept, Dropped, Restored, Deferred, RestoredInline, NotRestored, TaintAdded, TaintRemoved, Blocked, RegistrationTaintAdded, RegistrationTaintDropped}
}

func compareChanges(a, b Change) int {
	order := func(c Change) int { return slices.Index(ChangeKinds(), c.Kind) }
	return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Reason, b.Reason))
}
