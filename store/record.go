package store

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Version is the record format that this nodekeep writes. It reads the next one too, additively: a format change takes
// two releases, so that a rollback of one never makes records unreadable.
const Version = 1

// Record is what nodekeep remembers of one Node. Its JSON is that of recordFields.
type Record struct {
	Version int
	Node    string
	// UID is the Node object on which these items were last seen whole.
	UID types.UID
	// NodeResourceVersion is how new that sight was. It moves only together with something else, and at a deletion.
	NodeResourceVersion string
	// Items are the labels and taints, each label under its key and each taint as "key:effect".
	Items map[string]string
	// Later is what objects of the name showed that came after that one and were never whole: values that count over
	// Items, nil for what was taken off. An item is there also where that changes nothing: then it is known that an older
	// object, seen late, has no say in it. It goes when a new object is whole. Of a record that is Early, nil is also what was
	// taken off that very object.
	Later map[string]*string
	// LaterVersions is how new the sight was that each item of Later is from, as a resourceVersion. It moves as
	// NodeResourceVersion does.
	LaterVersions map[string]string
	Withheld      Withheld
	// RuleTaints are the taints that our rules put on that object or are about to put there. They are not remembered; only
	// what is listed here is ever taken off again.
	RuleTaints []corev1.Taint
	// RuleClaims are taints of which admission is said to have put them on by rules that capture did not know then. They are
	// remembered like anybody's until capture knows such a rule; then they are RuleTaints.
	RuleClaims []corev1.Taint
	// FormerTaints were remembered once and were taken off or changed on a living Node: what a registration that used an
	// older record may have restored. Oldest first, a bounded number.
	FormerTaints []corev1.Taint
	// Early says that the record was first written when its Node was about to be deleted, before capture had seen that
	// object: the end of an older one of the name may still have to be counted.
	Early bool
	// Machine is what is known of the machine behind that Node object.
	Machine Machine
	// DeletedAt is when that Node object was seen to be gone.
	DeletedAt *metav1.Time
	// History is what changed of what is remembered, oldest first: the newest changes, a bounded number. Nothing is ever
	// decided by it.
	History []Change
	// historyLeftOut says that it was not read with the record, see WithoutHistory.
	historyLeftOut bool

	// Quarantined is what was remembered before another machine took the name, kept beside the record until a person
	// accepts a side; nil otherwise.
	Quarantined *Record
	// Accepted is the side that a person has accepted; empty while nobody has.
	Accepted Side

	// unknown holds fields of later versions and is written back as it was read.
	unknown map[string]json.RawMessage
}

// Machine is what is known of the machine behind a Node. The fields are those of policy.Machine.
type Machine struct {
	ProviderID string `json:"providerID,omitempty"`
	SystemUUID string `json:"systemUUID,omitempty"`
	MachineID  string `json:"machineID,omitempty"`
}

// Side is one of the two that a quarantined record is about.
type Side string

// The sides.
const (
	OldMachine Side = "old" // what was remembered before
	NewMachine Side = "new" // the machine that has the name now
)

// Withheld is what is remembered but not given today: the policy says never or no longer keeps it, the API server
// refused it, or the Node brought another value.
type Withheld struct {
	Items map[string]string

	unknown map[string]json.RawMessage
}

// IsZero reports whether nothing is withheld; the record then leaves the field out.
func (w Withheld) IsZero() bool { return len(w.Items) == 0 && len(w.unknown) == 0 }

// Remembered is every item that the record holds, given or withheld. Where both hold a key, the one last seen on a
// Node counts. The map is the caller's own.
func (r Record) Remembered() map[string]string {
	all := make(map[string]string, len(r.Items)+len(r.Withheld.Items)+len(r.Later))
	maps.Copy(all, r.Withheld.Items)
	maps.Copy(all, r.Shown())
	return all
}

// Shown is every item as it was last seen on a Node of the name. The map is the caller's own.
func (r Record) Shown() map[string]string {
	shown := make(map[string]string, len(r.Items)+len(r.Later))
	maps.Copy(shown, r.Items)
	for key, value := range r.Later {
		if value == nil {
			delete(shown, key)
		} else {
			shown[key] = *value
		}
	}
	return shown
}

// Same reports whether two records remember the same of the same Node object; how new the sight was does not count,
// so a heartbeat is never a reason to write. Nor does the history, which only tells how it came to this.
func (r Record) Same(other Record) bool {
	return r.Node == other.Node && r.UID == other.UID &&
		maps.Equal(r.Items, other.Items) && maps.EqualFunc(r.Later, other.Later, sameValue) && maps.Equal(r.Withheld.Items, other.Withheld.Items) &&
		slices.Equal(r.RuleTaints, other.RuleTaints) && slices.Equal(r.RuleClaims, other.RuleClaims) &&
		(r.DeletedAt == nil) == (other.DeletedAt == nil) &&
		r.Machine == other.Machine && (r.Quarantined == nil) == (other.Quarantined == nil)
}

// HoldsNothing reports whether nothing would be lost with the record but which Node object it was of, and when: no item, no
// taint that was or may come to be ours, nothing that is still to be counted or decided, and no field of a later version.
// The machine alone is not worth keeping: it only says to whom items belong.
func (r Record) HoldsNothing() bool {
	return len(r.Items)+len(r.Later)+len(r.RuleTaints)+len(r.RuleClaims)+len(r.FormerTaints)+len(r.unknown) == 0 &&
		r.Withheld.IsZero() && !r.Early && r.Quarantined == nil
}

func sameValue(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// versioned is the record with the version of its format, which whoever makes one may leave out.
func (r Record) versioned() Record {
	if r.Version == 0 {
		r.Version = Version
	}
	return r
}
