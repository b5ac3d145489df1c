package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// flaw is why a text of the source cannot be used. A snapshot has it in the place of that text. It begins with a control character, which no
// text of a source may have.
type flaw string

// What can be wrong with a text.
const (
	notText     flaw = "\x00must be a string"
	longText    flaw = "\x00is too long"
	unprintable flaw = "\x00has a control character or is no UTF-8"
	duplicate   flaw = "\x00is there twice"
)

// What can be wrong with a whole entry, in addition to what is wrong with its systemUUID.
const (
	listedTwice  flaw = "\x00the Node is listed twice"
	notAnObject  flaw = "\x00attributes must be an object"
	unknownField flaw = "\x00the entry has a field other than name, systemUUID and attributes"
	fieldTwice   flaw = "\x00the entry has a field twice"
)

// inField returns the flaw as one of a field.
func (f flaw) inField(field string) flaw { return "\x00" + flaw(field) + " " + f[1:] }

// flawIn reports whether a flaw is in the place of a text, and which.
func flawIn(text string) (reason string, wrong bool) { return strings.CutPrefix(text, "\x00") }

// Bounds of the problems that are named.
const (
	mostProblems = 100 // Nodes of a source
	maxProblem   = 300 // bytes of what is wrong
)

// Problem is what a source has wrong of one Node.
type Problem struct {
	Node    string `json:"node,omitempty"` // empty: entries that name no Node
	Message string `json:"what"`
}

// contradicts reports why nothing of an entry may be used for a Node that reports this machine; empty: it may.
func (n node) contradicts(systemUUID string) string {
	if reason, wrong := flawIn(n.uuid); wrong {
		return reason
	}
	if n.uuid == "" || systemUUID == "" || n.uuid == strings.ToLower(systemUUID) {
		return ""
	}
	return fmt.Sprintf("systemUUID is %s, and the Node reports %s", shown(n.uuid), shown(strings.ToLower(systemUUID)))
}

// Problem returns what the snapshot has wrong of a Node that reports this machine; empty: nothing. Labels of rules stay as they are where they
// need it.
func (s Snapshot) Problem(name, systemUUID string) string {
	listed := s.nodes[name]
	var all []string
	if reason := listed.contradicts(systemUUID); reason != "" {
		all = append(all, reason)
	}
	for i, text := range listed.texts() {
		if reason, wrong := flawIn(text); wrong {
			all = append(all, "attribute "+s.attributes[i]+" "+reason)
		}
	}
	return bounded(strings.Join(all, "; "))
}

// bounded returns a text of at most maxProblem bytes.
func bounded(text string) string {
	if len(text) > maxProblem {
		return strings.ToValidUTF8(text[:maxProblem-3], "") + "..."
	}
	return text
}

// shown returns a text of the source, as logs and Events may have it.
func shown(text string) string { return fmt.Sprintf("%.40q", text) }

// Problems returns what the snapshot has wrong, the first of many, and how many there are. The parameter live has the machines that Nodes
// report now. These Nodes are first.
func (s Snapshot) Problems(live map[string]string) (first []Problem, count int) {
	see := func(name, message string) {
		if message == "" {
			return
		}
		if count++; len(first) < mostProblems {
			first = append(first, Problem{name, message})
		}
	}
	if s.unnamed > 0 {
		see("", bounded(fmt.Sprintf("entries that name no Node: %d, such as %s", s.unnamed, s.firstOf)))
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		see(name, s.Problem(name, live[name]))
	}
	for _, name := range s.flawed {
		if _, ok := live[name]; !ok {
			see(name, s.Problem(name, ""))
		}
	}
	return first, count
}
