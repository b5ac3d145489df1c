package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

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

// keptOf is how many bytes a snapshot of each of so many sources may take.
func keptOf(sources int) int { return min(MaxKept, budget/states/max(1, sources)) }

// nodeCost is the memory of an entry without its texts, in bytes. It covers the entry's part of the map, and the allocator's rounding.
const nodeCost = 128

// ErrKeepsTooMuch says that the attributes that the source keeps would take more than its part of the memory.
var ErrKeepsTooMuch = errors.New("list fewer attributes or Nodes, or have fewer sources")

// maxUUID is how many bytes a systemUUID may have. Real ones have 36.
const maxUUID = 128

// mostChanged is the part that may change at once before an operator accepts it: one in ten.
const mostChanged = 10

// Snapshot is what a source says. It is immutable; the zero value lists no Node.
type Snapshot struct {
	nodes      map[string]node
	attributes []string // sorted; the others were not kept
	hash       string
}

// node is an entry of a snapshot.
type node struct {
	uuid   string
	values string // packed, one for each attribute; empty: the Node does not have it
}

// Len is how many Nodes the snapshot lists.
func (s Snapshot) Len() int { return len(s.nodes) }

// Hash names the content: equal snapshots of one source have equal hashes.
func (s Snapshot) Hash() string { return s.hash }

// Names are the Nodes, sorted.
func (s Snapshot) Names() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// SystemUUID is the machine that the snapshot lists for a Node, in lower case; empty: none.
func (s Snapshot) SystemUUID(name string) string { return s.nodes[name].uuid }

// Of are the attributes of a Node; an attribute that it does not have is empty. If the snapshot lists another machine for the Node, nothing
// is known and ok is false.
func (s Snapshot) Of(name, systemUUID string) (attributes map[string]string, ok bool) {
	listed, is := s.nodes[name]
	if is && listed.uuid != "" && systemUUID != "" && listed.uuid != strings.ToLower(systemUUID) {
		return nil, false
	}
	attributes = make(map[string]string, len(s.attributes))
	var values []string
	if is {
		packed := packing.Reader(listed.values)
		values = packed.Texts()
	}
	for i, attribute := range s.attributes {
		attributes[attribute] = ""
		if i < len(values) {
			attributes[attribute] = values[i]
		}
	}
	return attributes, true
}

// Lost is how many Nodes of the snapshot the next one does not list.
func (s Snapshot) Lost(next Snapshot) (lost int) {
	for name := range s.nodes {
		if _, still := next.nodes[name]; !still {
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

// Decode reads a snapshot. The caller checks that nothing follows it, and bounds what is read.
func Decode(from *json.Decoder, of Source) (Snapshot, error) {
	from.UseNumber()
	d := decoder{from: from, of: of, next: Snapshot{nodes: map[string]node{}, attributes: of.Attributes}}
	if err := d.document(); err != nil {
		return Snapshot{}, err
	}
	d.next.hash = d.next.digest(of.Name)
	return d.next, nil
}

func (s Snapshot) digest(source string) string {
	var head packing.Writer
	head.Text(source)
	head.Texts(s.attributes)
	sum := sha256.New()
	_, _ = sum.Write(head) // never fails
	for _, name := range s.Names() {
		var one packing.Writer
		one.Texts([]string{name, s.nodes[name].uuid, s.nodes[name].values})
		_, _ = sum.Write(one)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// decoder reads one snapshot, token by token.
type decoder struct {
	from *json.Decoder
	of   Source
	next Snapshot
	kept int // bytes
}

func (d *decoder) document() error {
	seen := map[string]bool{}
	err := d.object("the inventory", seen, func(key string) error {
		switch key {
		case "apiVersion":
			return d.constant(key, apiVersion)
		case "kind":
			return d.constant(key, kind)
		case "nodes":
			return d.list()
		}
		return fmt.Errorf("unknown field %s", shown(key))
	})
	if err != nil {
		return err
	}
	for _, required := range []string{"apiVersion", "kind", "nodes"} {
		if !seen[required] {
			return fmt.Errorf("field %s is missing", required)
		}
	}
	return nil
}

// object reads an object, each of whose fields may be there once.
func (d *decoder) object(what string, seen map[string]bool, field func(key string) error) error {
	if err := d.begin('{', what, "an object"); err != nil {
		return err
	}
	for d.from.More() {
		key, err := d.text("a field of " + what)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%s has field %s twice", what, shown(key))
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	_, err := d.from.Token()
	return err
}

func (d *decoder) begin(delim json.Delim, what, form string) error {
	token, err := d.from.Token()
	if err != nil {
		return err
	}
	if token != delim {
		return fmt.Errorf("%s must be %s", what, form)
	}
	return nil
}

// text reads a string. encoding/json replaces what is no UTF-8 with U+FFFD, so a text with that is refused.
func (d *decoder) text(what string) (string, error) {
	token, err := d.from.Token()
	if err != nil {
		return "", err
	}
	text, ok := token.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("%s must be a string", what)
	case strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }):
		return "", fmt.Errorf("%s has a control character or is no UTF-8", what)
	}
	return text, nil
}

func (d *decoder) constant(what, want string) error {
	is, err := d.text(what)
	if err == nil && is != want {
		return fmt.Errorf("%s must be %s, not %s", what, want, shown(is))
	}
	return err
}

func (d *decoder) list() error {
	if err := d.begin('[', "nodes", "a list"); err != nil {
		return err
	}
	for d.from.More() {
		if len(d.next.nodes) == MaxNodes {
			return fmt.Errorf("more than %d nodes", MaxNodes)
		}
		if err := d.node(); err != nil {
			return err
		}
	}
	_, err := d.from.Token()
	return err
}

func (d *decoder) node() error {
	at := fmt.Sprintf("nodes[%d]", len(d.next.nodes))
	var name, uuid string
	var values map[string]string
	err := d.object(at, map[string]bool{}, func(key string) (err error) {
		switch key {
		case "name":
			name, err = d.text(at + ".name")
			return err
		case "systemUUID":
			uuid, err = d.text(at + ".systemUUID")
			return err
		case "attributes":
			values, err = d.attributes(at + ".attributes")
			return err
		}
		return fmt.Errorf("%s has unknown field %s", at, shown(key))
	})
	if err != nil {
		return err
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%s.name: %s is not the name of a Node", at, shown(name))
	}
	if len(uuid) > maxUUID {
		return fmt.Errorf("%s.systemUUID has more than %d bytes", at, maxUUID)
	}
	if _, twice := d.next.nodes[name]; twice {
		return fmt.Errorf("%s: node %s is listed twice", at, name)
	}
	kept := make([]string, len(d.of.Attributes))
	for i, attribute := range d.of.Attributes {
		kept[i] = values[attribute]
	}
	var packed packing.Writer
	packed.Texts(kept)
	if d.kept += nodeCost + len(name) + len(uuid) + len(packed); d.kept > d.of.Kept {
		return fmt.Errorf("what is kept of it takes more than %d MiB: %w", d.of.Kept>>20, ErrKeepsTooMuch)
	}
	d.next.nodes[strings.Clone(name)] = node{uuid: strings.ToLower(uuid), values: string(packed)}
	return nil
}

func (d *decoder) attributes(at string) (map[string]string, error) {
	values, seen := map[string]string{}, map[string]bool{}
	err := d.object(at, seen, func(key string) error {
		if len(seen) > MaxAttributes {
			return fmt.Errorf("%s has more than %d entries", at, MaxAttributes)
		}
		value, err := d.text(at)
		if err != nil {
			return err
		}
		if key == "" {
			return errors.New(at + " has an entry without a name")
		}
		if len(key) > MaxText || len(value) > MaxText {
			return fmt.Errorf("%s: %s or its value has more than %d bytes", at, shown(key), MaxText)
		}
		values[key] = value
		return nil
	})
	return values, err
}

// shown is a text of the source, as logs and Events may have it.
func shown(text string) string { return fmt.Sprintf("%.40q", text) }
