package verify

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names of the ConfigMap, in the namespace of worker Pods, that has the state of the brakes.
const (
	LedgerMap = "nodekeep-verify"
	LedgerKey = "removals.json" // of the data: the [Ledger]
)

// Bounds of a ledger.
const (
	ledgerKeeps   = 24 * time.Hour // how long a removal is kept, and its Node's name is not removed again
	budgetWindow  = time.Hour
	brakeLasts    = 2 * time.Minute // how long a brake counts as open that was seen to be
	maxRemovals   = 24*maxDeletions + maxDeletions
	maxBrakes     = 10 * MaxProfiles
	maxLedger     = 900 << 10 // bytes of the text: a ConfigMap has 1 MiB
	maxUIDLength  = 128
	maxNodeLength = validation.DNS1123SubdomainMaxLength
)

// Removal is a decision to remove a Node. It is written before the removal is carried out, and marked as done after it.
type Removal struct {
	Node    string      `json:"node"`
	UID     string      `json:"uid"`
	Kind    RemovalKind `json:"kind"`
	Profile string      `json:"profile"`
	Time    time.Time   `json:"time"`
	Done    bool        `json:"done,omitempty"`
}

// SeenBrake is when a brake of a profile was last observed open. Nothing else in the API server shows this brake.
type SeenBrake struct {
	Profile string      `json:"profile"`
	Reason  BrakeReason `json:"reason"` // SharedFailure or TooMany
	Seen    time.Time   `json:"seen"`
}

// Ledger are the removals and the brakes of the last 24 hours. It is not to be changed: methods return another one.
type Ledger struct {
	Removals []Removal   `json:"removals"`
	Brakes   []SeenBrake `json:"brakes,omitempty"`
}

// ParseLedger reads a ledger strictly. With an error, nothing may be removed: what was removed before is not known. An empty text is an empty ledger.
func ParseLedger(text string) (Ledger, error) {
	var ledger Ledger
	if text == "" {
		return Ledger{}, nil
	}
	if err := readJSON(text, maxLedger, "a list of removals", &ledger); err != nil {
		return Ledger{}, fmt.Errorf("read removals: %w", err)
	}
	if len(ledger.Removals) > maxRemovals {
		return Ledger{}, fmt.Errorf("read removals: %d entries, more than %d", len(ledger.Removals), maxRemovals)
	}
	if len(ledger.Brakes) > maxBrakes {
		return Ledger{}, fmt.Errorf("read removals: %d brakes, more than %d", len(ledger.Brakes), maxBrakes)
	}
	for i, brake := range ledger.Brakes {
		if len(validation.IsDNS1123Label(brake.Profile)) > 0 || !brake.Reason.Kept() || brake.Seen.IsZero() {
			return Ledger{}, fmt.Errorf("read removals: brake %d is none", i+1)
		}
	}
	uids := map[string]bool{}
	for i, removal := range ledger.Removals {
		if wrong := removal.wrong(); wrong != "" {
			return Ledger{}, fmt.Errorf("read removals: entry %d: %s", i+1, wrong)
		}
		if uids[removal.UID] {
			return Ledger{}, fmt.Errorf("read removals: entry %d: its uid is there twice", i+1)
		}
		uids[removal.UID] = true
	}
	return ledger, nil
}

func (r Removal) wrong() string {
	switch {
	case len(r.Node) > maxNodeLength || len(validation.IsDNS1123Subdomain(r.Node)) > 0:
		return "node is not the name of a Node"
	case r.UID == "" || len(r.UID) > maxUIDLength:
		return "uid is empty or too long"
	case !slices.Contains(RemovalKinds(), r.Kind):
		return "kind is unknown"
	case len(validation.IsDNS1123Label(r.Profile)) > 0:
		return "profile is not the name of a profile"
	case r.Time.IsZero():
		return "time is missing"
	}
	return ""
}

// String returns the ledger as JSON.
func (l Ledger) String() string {
	if l.Removals == nil {
		l.Removals = []Removal{}
	}
	return toJSON(l)
}

// Find returns the removal of a Node object.
func (l Ledger) Find(uid string) (removal Removal, ok bool) {
	i := slices.IndexFunc(l.Removals, func(entry Removal) bool { return entry.UID == uid })
	if i < 0 {
		return Removal{}, false
	}
	return l.Removals[i], true
}

// Holds returns the brake that holds a removal now, in a cluster where profiles select so many nodes. It is nil if the removal may be made. A removal that
// is in the ledger and not done must fit as a new one does. So removals that were impossible for hours are not made all at once.
func (l Ledger) Holds(removal Removal, limits CompiledLimits, nodes int, now time.Time) *Brake {
	var sameName, newest time.Time
	var inHour []time.Time
	for _, entry := range l.Removals {
		if entry.UID == removal.UID && !entry.Done {
			continue
		}
		if entry.Node == removal.Node || entry.UID == removal.UID {
			sameName = latest(sameName, entry.Time.Add(ledgerKeeps))
		}
		newest = latest(newest, entry.Time)
		if entry.Time.Add(budgetWindow).After(now) {
			inHour = append(inHour, entry.Time)
		}
	}
	slices.SortFunc(inHour, time.Time.Compare)
	budget := limits.budget(nodes)
	switch {
	case sameName.After(now):
		return &Brake{Reason: BrakeSameNode, End: sameName}
	case budget < 1: // nor do limits that were never compiled
		return BrakeOf(BrakeBudget, "they allow none")
	case len(inHour) >= budget:
		return &Brake{Reason: BrakeBudget, End: inHour[len(inHour)-budget].Add(budgetWindow)}
	case newest.Add(limits.Pause(nodes)).After(now) && !newest.IsZero():
		return &Brake{Reason: BrakeCooldown, End: newest.Add(limits.Pause(nodes))}
	case len(l.kept(now)) >= maxRemovals:
		return &Brake{Reason: BrakeLedger, End: now.Add(budgetWindow)}
	}
	return nil
}

// TooMany reports whether more Nodes of a profile fail, or were removed within 24 hours, than StopAbove allows. The keys of existing are the uids of
// all Nodes that the profile selects; true: the Node fails.
func (l Ledger) TooMany(profile string, existing map[string]bool, limits CompiledLimits, now time.Time) bool {
	nodes, failing := len(existing), 0
	for _, fails := range existing {
		if fails {
			failing++
		}
	}
	for _, removal := range l.kept(now) {
		fails, exists := existing[removal.UID]
		if removal.Profile != profile || fails {
			continue
		}
		if failing++; !exists {
			nodes++
		}
	}
	return failing > limits.allows(nodes)
}

// Add returns the ledger with one more removal, and without entries older than 24 hours. An entry of the same uid that is not done counts from now on. An
// entry that is done stays as it is.
func (l Ledger) Add(removal Removal, now time.Time) Ledger {
	kept := l.kept(now)
	if i := slices.IndexFunc(kept, func(entry Removal) bool { return entry.UID == removal.UID }); i < 0 {
		kept = append(kept, removal)
	} else if !kept[i].Done {
		kept[i] = removal
	}
	return Ledger{Removals: kept, Brakes: l.keptBrakes(now)}
}

// Seeing returns the ledger with a brake that is open now. news is false where the ledger says so already.
func (l Ledger) Seeing(profile string, reason BrakeReason, now time.Time) (seeing Ledger, news bool) {
	brake := SeenBrake{Profile: profile, Reason: reason, Seen: now}
	brakes := l.keptBrakes(now)
	i := slices.IndexFunc(brakes, func(b SeenBrake) bool { return b.Profile == profile && b.Reason == reason })
	switch {
	case !reason.Kept() || i >= 0 && brakes[i].Seen.Add(brakeLasts/2).After(now):
		return l, false
	case i >= 0:
		brakes[i] = brake
	default:
		brakes = append(brakes, brake)
	}
	return Ledger{Removals: l.kept(now), Brakes: brakes}, true
}

// activeBrake returns the brake of a profile that was open at some time, and for longest; nil: none was.
func (l Ledger) activeBrake(profile string, now time.Time) (active *Brake) {
	for _, brake := range l.Brakes {
		if seen := brake.Brake(); brake.Profile == profile && seen.End.After(now) && (active == nil || seen.End.After(active.End)) {
			active = &seen
		}
	}
	return active
}

// Brake returns the brake, open until it is not seen for a while.
func (b SeenBrake) Brake() Brake { return Brake{Reason: b.Reason, End: b.Seen.Add(brakeLasts)} }

func (l Ledger) keptBrakes(now time.Time) []SeenBrake {
	return slices.DeleteFunc(slices.Clone(l.Brakes), func(brake SeenBrake) bool { return !brake.Seen.Add(ledgerKeeps).After(now) })
}

// Finished returns the ledger with the removal of a Node object marked as done.
func (l Ledger) Finished(uid string) Ledger {
	removals := slices.Clone(l.Removals)
	for i := range removals {
		removals[i].Done = removals[i].Done || removals[i].UID == uid
	}
	return Ledger{Removals: removals, Brakes: l.Brakes}
}

// kept returns the removals that still count.
func (l Ledger) kept(now time.Time) []Removal {
	return slices.DeleteFunc(slices.Clone(l.Removals), func(removal Removal) bool { return !removal.Time.Add(ledgerKeeps).After(now) })
}
