package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"

	"nodekeep.dev/nodekeep/record/packing"
)

// What a snapshot must say of itself.
const (
	apiVersion = "nodekeep.dev/v1alpha1"
	kind       = "Inventory"
)

// MaxNodes bounds how many Nodes a snapshot may list.
const MaxNodes = 200_000

// MaxKept bounds how many bytes of memory a snapshot takes. The snapshots of all sources together have a budget, of which each source has an equal
// part. For a source, capture may hold three: one in force, one held, and one that it is reading.
const (
	MaxKept = 48 << 20
	budget  = 288 << 20
	states  = 3
)

// keptOf returns how many bytes a snapshot of each of so many sources may take.
func keptOf(sources int) int { return min(MaxKept, budget/states/max(1, sources)) }

// nodeCost is the memory of an entry without its texts, in bytes. It covers the entry's part of the map, and the allocator's rounding.
const nodeCost = 128

// ErrKeepsTooMuch says that the attributes that the source keeps would take more than its part of the memory.
var ErrKeepsTooMuch = errors.New("list fewer attributes or Nodes, or have fewer sources")

// mostChanged is the part that may change at once before an operator accepts it: one in ten.
const mostChanged = 10

// Snapshot is what a source says. It is immutable; the zero value lists no Node.
type Snapshot struct {
	nodes      map[string]node
	attributes []string // sorted; the others were not kept
	missing    []string // those of attributes that no Node has, sorted
	hash       string
	flawed     []string // Nodes of whose entries something cannot be used, sorted
	unnamed    int      // entries that name no Node
	firstOf    string   // what is wrong with the first of these
}

// node is an entry of a snapshot. A [flaw] is in the place of a text that cannot be used. If it is in the place of uuid, it is about the whole
// entry.
type node struct {
	uuid   string
	values string // packed, one for each attribute; empty: the Node does not have it
}

// Len returns how many Nodes the snapshot lists.
func (s Snapshot) Len() int { return len(s.nodes) }

// Missing returns the attributes of the source that the snapshot has of no Node, sorted. One that cannot be used is there. It is not to be changed.
func (s Snapshot) Missing() []string { return s.missing }

// Hash names the content: equal snapshots of one source have equal hashes.
func (s Snapshot) Hash() string { return s.hash }

// Names returns the Nodes, sorted.
func (s Snapshot) Names() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// SystemUUID returns the machine that the snapshot lists for a Node, in lower case; empty: none.
func (s Snapshot) SystemUUID(name string) string {
	if _, wrong := flawIn(s.nodes[name].uuid); wrong {
		return ""
	}
	return s.nodes[name].uuid
}

// Attributes returns the attributes of a Node; an attribute that it does not have is empty. One that cannot be used is missing: it is not known. If the
// whole entry cannot be used, or lists another machine, nothing is known and ok is false.
func (s Snapshot) Attributes(name, systemUUID string) (attributes map[string]string, ok bool) {
	listed := s.nodes[name]
	if listed.contradicts(systemUUID) != "" {
		return nil, false
	}
	attributes = make(map[string]string, len(s.attributes))
	values := listed.texts()
	for i, attribute := range s.attributes {
		if i >= len(values) {
			attributes[attribute] = ""
		} else if _, wrong := flawIn(values[i]); !wrong {
			attributes[attribute] = values[i]
		}
	}
	return attributes, true
}

// texts returns the values of an entry, each in the place of its attribute. A Node that is not listed has none.
func (n node) texts() []string {
	if n.values == "" {
		return nil
	}
	packed := packing.Reader(n.values)
	return packed.Texts()
}

// Lost returns how many Nodes of the snapshot the next one does not list.
func (s Snapshot) Lost(next Snapshot) (lost int) {
	for name := range s.nodes {
		if _, ok := next.nodes[name]; !ok {
			lost++
		}
	}
	return lost
}

// Change is what the next snapshot of a source would do.
type Change struct {
	Lost, Listed   int // Nodes that are not listed any more, of those that are
	Altered, Nodes int // Nodes on which labels of rules would be removed or changed, of all that live
}

// NeedsAcceptance reports whether an operator has to accept the change first.
func (c Change) NeedsAcceptance() bool {
	return c.Lost > max(1, c.Listed/mostChanged) || c.Altered > max(1, c.Nodes/mostChanged)
}

func (s Snapshot) digest(source string) string {
	var head packing.Writer
	head.Text(source)
	head.Texts(s.attributes)
	if s.unnamed > 0 {
		head.Texts([]string{strconv.Itoa(s.unnamed), s.firstOf})
	}
	sum := sha256.New()
	_, _ = sum.Write(head) // never fails
	for _, name := range s.Names() {
		var w packing.Writer
		w.Texts([]string{name, s.nodes[name].uuid, s.nodes[name].values})
		_, _ = sum.Write(w)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}
