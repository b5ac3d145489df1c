package capture

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Event is how a Node was seen.
type Event int

// The events.
const (
	Present Event = iota // the Node exists, in this state
	Deleted              // the Node object is gone, and this was its last state
	Absent               // the API server answered 404 for the name; nothing else is known
)

// Plan is the next step for one Node: a record to write, or a change to the Node, or nothing. After a step one plans again,
// with what the API server answered, until nothing is left.
type Plan struct {
	Step  Step
	Write *store.Record // the record to put

	Give     map[string]string // items to add to the Node
	PutRight map[string]string // items to set to another value, restored from a record that was stale
	TakeBack []string          // items to remove, restored from a record that was stale
	Put      []corev1.Taint    // taints that rules want
	Take     []corev1.Taint    // taints that rules put on and want no more
	Register []corev1.Taint    // taints that a new Node gets once
	Stamp    *policy.Stamp     // the Node's new stamp
	LiftGate bool

	RuleTaints []corev1.Taint // all that is our rules' after this step, to be shown to people
	Foreign    []corev1.Taint // what rules want and cannot have: somebody else has put on a taint of that key and effect
}

// Step names what a plan does, for logs and metrics.
type Step string

// The steps.
const (
	Nothing  Step = "nothing"
	Create   Step = "create"    // first record of a Node
	Update   Step = "update"    // the Node changed
	Adopt    Step = "adopt"     // a new Node object has all that the record says
	Merge    Step = "merge"     // a Node object that is about to go, or went, before it was adopted
	MarkGone Step = "mark_gone" // the Node object is gone
	Isolate  Step = "isolate"   // another machine has the name: what was remembered is set aside
	Accept   Step = "accept"    // a person has decided between two machines
	Complete Step = "complete"  // give what is missing, put right what was restored from a stale record
	Lift     Step = "lift_gate"
	Reset    Step = "reset" // the record can never have been right: its values stay, its versions go

	FollowRules Step = "follow_rules" // taints follow the labels
)

// changesNode reports whether the step is a change to the Node.
func (p Plan) changesNode() bool {
	return p.Step == Complete || p.Step == Lift || p.Step == FollowRules
}

// changesItems reports whether the step puts on or takes off anything but the gate.
func (p Plan) changesItems() bool {
	return len(p.Give)+len(p.PutRight)+len(p.TakeBack)+len(p.Put)+len(p.Take)+len(p.Register) > 0
}

// plan decides the next step from what is remembered (nil: no record), what is seen and how. The table in the design,
// section 5, is this function; each of its rows is a test.
func plan(prev *store.Record, seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	next := planStep(prev, seen, event, p, now)
	if prev != nil && next.Write != nil {
		next.Write.FormerTaints = formerTaints(*prev, *next.Write)
		next.Write = withHistory(*prev, next, seen, p, now)
	}
	return next
}

func planStep(prev *store.Record, seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	switch {
	case event == Absent:
		return planAbsent(prev, now)
	case prev == nil:
		return planFirst(seen, event, p, now)
	case prev.Quarantined != nil:
		return planQuarantined(*prev, seen, event, p, now)
	case prev.UID == seen.UID:
		return planSame(*prev, seen, event, p, now)
	case compareVersions(seen.ResourceVersion, prev.NodeResourceVersion) < 0:
		return planOlder(*prev, seen, event, p)
	case event == Present && !seen.deleting() && late(*prev, seen):
		return Plan{Step: Nothing} // it is not like that any more
	case p.Quarantines(seen.Machine, policy.Machine(prev.Machine)):
		return planIsolation(*prev, seen, event, p, now)
	case event == Deleted || seen.deleting():
		return planUnadopted(*prev, seen, event, p, now)
	default:
		return planNew(*prev, seen, p)
	}
}

func planAbsent(prev *store.Record, now time.Time) Plan {
	if prev == nil {
		return Plan{Step: Nothing}
	}
	if next, decided := Decided(*prev); decided {
		return Plan{Step: Accept, Write: &next}
	}
	if prev.DeletedAt != nil {
		return Plan{Step: Nothing}
	}
	gone := *prev
	gone.DeletedAt = timestamp(now)
	return Plan{Step: MarkGone, Write: &gone}
}

// planFirst: nothing is remembered of that name.
func planFirst(seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	first := remember(store.Record{Node: seen.Name}, seen, p)
	if event == Deleted {
		first.DeletedAt = timestamp(now)
	} else {
		first = intended(first, seen, p)
	}
	if len(first.Items)+len(first.RuleTaints) > 0 {
		return Plan{Step: Create, Write: &first}
	}
	if event == Deleted || seen.deleting() {
		return Plan{Step: Nothing}
	}
	return complete(first, seen, nil, nil, p)
}

// planSame: the record is of this very object, so the object is authoritative.
func planSame(prev store.Record, seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	current := prev
	order := compareVersions(seen.ResourceVersion, prev.NodeResourceVersion)
	switch {
	case order >= 0: // also for the very state that was recorded: the policy may be another one today
		current = remember(prev, seen, p)
		current.DeletedAt = nil
		if prev.Early {
			current = stillEarly(prev, current, seen, event, p)
		}
	case event == Present:
		return Plan{Step: Nothing}
	}
	if event == Deleted {
		current.DeletedAt = cmp.Or(prev.DeletedAt, timestamp(now))
	}
	gone := event == Deleted || seen.deleting()
	if gone || order == 0 {
		current = withRuleTaints(current, prev.RuleTaints) // some may be on their way
	}
	if !gone {
		current = intended(current, seen, p)
	}
	switch {
	case !current.Same(prev), !gone && order > 0 && putsByRule(prev, seen, p):
		return Plan{Step: stepFor(event), Write: &current}
	case gone:
		return Plan{Step: Nothing}
	case p.Gate().On(seen.Taints) || prev.Early: // its deletion did not come true: what it lacks is still owed to it
		return complete(current, seen, nil, nil, p)
	default:
		return followRules(current, seen, p)
	}
}

// planOlder: an older object of that name, seen late. It is in the record already, unless this is its end and the record
// was first written at the deletion of a later one.
func planOlder(prev store.Record, seen *Node, event Event, p policy.Policy) Plan {
	if event != Deleted || !prev.Early {
		return Plan{Step: Nothing}
	}
	filled := fillIn(prev, seen, p)
	if filled.Same(prev) {
		return Plan{Step: Nothing}
	}
	return Plan{Step: Merge, Write: &filled}
}

// planUnadopted: a new object of that name is about to go, or went, before its labels were seen whole.
func planUnadopted(prev store.Record, seen *Node, event Event, p policy.Policy, now time.Time) Plan {
	merged := unadopted(prev, seen, event, p)
	step := Merge
	if event == Deleted && !late(prev, seen) {
		step, merged.DeletedAt = MarkGone, timestamp(now)
	} else {
		merged.DeletedAt = prev.DeletedAt
	}
	if merged.Same(prev) && (event == Present || maps.Equal(merged.LaterVersions, prev.LaterVersions)) {
		return Plan{Step: Nothing}
	}
	return Plan{Step: step, Write: &merged}
}

// unadopted is the record after a sight of such an object. What that shows is added to what is remembered; what it lacks says
// nothing. It may be seen only after the look at the deletion of a later one.
func unadopted(prev store.Record, seen *Node, event Event, p policy.Policy) store.Record {
	right := withoutStale(prev, seen)
	merged := remember(flat(prev), right, p)
	if right != seen || !whole(prev, seen, p) || event == Present || late(prev, seen) {
		return mergeInto(prev, merged, right, given(seen))
	}
	return merged
}

// planNew: a new object of that name; it gets what it lacks, and is adopted when it lacks nothing.
func planNew(prev store.Record, seen *Node, p policy.Policy) Plan {
	putRight, takeBack := stale(prev, seen)
	if len(putRight) == 0 && len(takeBack) == 0 && whole(prev, seen, p) {
		adopted := intended(remember(flat(prev), seen, p), seen, p)
		adopted.DeletedAt = nil
		return Plan{Step: Adopt, Write: &adopted}
	}
	return complete(prev, seen, putRight, takeBack, p)
}

func stepFor(event Event) Step {
	if event == Deleted {
		return MarkGone
	}
	return Update
}

// compareVersions compares resourceVersions; what cannot be compared counts as newer, so that a Node is never ignored.
func compareVersions(seen, remembered string) int {
	order, err := resourceversion.CompareResourceVersion(seen, remembered)
	if err != nil {
		return 1
	}
	return order
}

// timestamp is now as it is stored: whole seconds, UTC.
func timestamp(now time.Time) *metav1.Time {
	return &metav1.Time{Time: now.UTC().Truncate(time.Second)}
}
