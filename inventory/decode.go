package inventory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/record/packing"
)

// Bounds of what a document may have.
const (
	maxUUID  = 128 // bytes; real ones have 36
	maxDepth = 32  // of what is ignored
)

// flawCost is the memory of an entry's place among those with a flaw, in bytes.
const flawCost = 32

// Decode reads a snapshot. The caller checks that nothing follows it, and bounds what is read.
func Decode(from *json.Decoder, source Source) (Snapshot, error) {
	from.UseNumber()
	d := decoder{from: from, source: source, present: make([]bool, len(source.Attributes)), next: Snapshot{nodes: map[string]node{}, attributes: source.Attributes}}
	if err := d.document(); err != nil {
		return Snapshot{}, err
	}
	slices.Sort(d.next.flawed)
	d.next.flawed = slices.Compact(d.next.flawed)
	for i, attribute := range source.Attributes {
		if !d.present[i] {
			d.next.missing = append(d.next.missing, attribute)
		}
	}
	d.next.hash = d.next.digest(source.Name)
	return d.next, nil
}

// decoder reads one snapshot, token by token. An error ends it: the document cannot be read. What is wrong with one entry is a [flaw] of that entry.
type decoder struct {
	from    *json.Decoder
	source  Source
	next    Snapshot
	present []bool // which attributes a Node has
	entries int
	kept    int // bytes
}

func (d *decoder) document() error {
	if err := d.begin('{', "the inventory", "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.from.More() {
		key, err := d.key()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("the inventory has field %s twice", shown(key))
		}
		seen[key] = true
		if err := d.field(key); err != nil {
			return err
		}
	}
	if _, err := d.from.Token(); err != nil {
		return err
	}
	for _, required := range []string{"apiVersion", "kind", "nodes"} {
		if !seen[required] {
			return fmt.Errorf("field %s is missing", required)
		}
	}
	return nil
}

func (d *decoder) field(key string) error {
	switch key {
	case "apiVersion":
		return d.constant(key, apiVersion)
	case "kind":
		return d.constant(key, kind)
	case "nodes":
		return d.list()
	}
	return fmt.Errorf("unknown field %s", shown(key))
}

func (d *decoder) begin(delim json.Delim, name, form string) error {
	token, err := d.from.Token()
	if err != nil {
		return err
	}
	if token != delim {
		return fmt.Errorf("%s must be %s", name, form)
	}
	return nil
}

// key reads the name of a field. encoding/json lets nothing else be there.
func (d *decoder) key() (string, error) {
	token, err := d.from.Token()
	key, _ := token.(string)
	return key, err
}

func (d *decoder) constant(field, want string) error {
	value, wrong, err := d.text(maxUUID)
	switch {
	case err != nil:
		return err
	case wrong != "":
		return fmt.Errorf("%s %s", field, wrong[1:])
	case value != want:
		return fmt.Errorf("%s must be %s, not %s", field, want, shown(value))
	}
	return nil
}

// text reads a value that should be a string of at most so many bytes. If it is none, wrong says why, and the whole value is read over. The
// package encoding/json replaces what is no UTF-8 with U+FFFD, so a text with that cannot be used.
func (d *decoder) text(limit int) (text string, wrong flaw, err error) {
	token, err := d.from.Token()
	if err != nil {
		return "", "", err
	}
	text, ok := token.(string)
	switch {
	case !ok:
		return "", notText, d.skip(token)
	case len(text) > limit:
		return "", longText, nil
	case strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }):
		return "", unprintable, nil
	}
	return text, "", nil
}

// skip reads over the rest of a value, whose first token was read. Each level takes memory, so their number has a bound.
func (d *decoder) skip(first json.Token) error {
	depth := 0
	for token := first; ; {
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("it nests more than %d levels", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if token, err = d.from.Token(); err != nil {
			return err
		}
	}
}

// ignore reads over a value.
func (d *decoder) ignore() error {
	token, err := d.from.Token()
	if err != nil {
		return err
	}
	return d.skip(token)
}

func (d *decoder) list() error {
	if err := d.begin('[', "nodes", "a list"); err != nil {
		return err
	}
	for d.from.More() {
		if d.entries == MaxNodes {
			return fmt.Errorf("more than %d nodes", MaxNodes)
		}
		if err := d.node(); err != nil {
			return err
		}
		d.entries++
	}
	_, err := d.from.Token()
	return err
}

// entry is one of the document while it is read.
type entry struct {
	name, uuid string
	nameless   flaw     // why it names no Node; empty: name is a text
	wrong      flaw     // why nothing of it can be used
	values     []string // of the attributes of the source
	flawed     bool     // something of it cannot be used
}

func (d *decoder) node() error {
	token, err := d.from.Token()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		d.unnamed("must be an object")
		return d.skip(token)
	}
	e := entry{nameless: "\x00is missing", values: make([]string, len(d.source.Attributes))}
	seen := map[string]bool{}
	for d.from.More() {
		key, err := d.key()
		if err != nil {
			return err
		}
		switch key {
		case "name", "systemUUID", "attributes":
			err = d.known(&e, key, seen[key])
			seen[key] = true
		default:
			e.wrong = unknownField
			err = d.ignore()
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.from.Token(); err != nil {
		return err
	}
	return d.keep(e)
}

// known reads a field of an entry. If it was there before, neither of them can be used.
func (d *decoder) known(e *entry, key string, repeated bool) (err error) {
	var wrong flaw
	switch {
	case repeated && key == "name":
		e.nameless = duplicate
		return d.ignore()
	case repeated:
		e.wrong = fieldTwice
		return d.ignore()
	case key == "name":
		e.name, e.nameless, err = d.text(validation.DNS1123SubdomainMaxLength)
	case key == "systemUUID":
		e.uuid, wrong, err = d.text(maxUUID)
		if e.uuid = strings.ToLower(e.uuid); wrong != "" {
			e.wrong = wrong.inField(key)
		}
	default:
		err = d.attributes(e)
	}
	return err
}

// attributes reads those that the source keeps, and ignores the others.
func (d *decoder) attributes(e *entry) error {
	token, err := d.from.Token()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		e.wrong = notAnObject
		return d.skip(token)
	}
	seen := make([]bool, len(e.values))
	for d.from.More() {
		key, err := d.key()
		if err != nil {
			return err
		}
		i, listed := slices.BinarySearch(d.source.Attributes, key)
		if !listed {
			if err := d.ignore(); err != nil {
				return err
			}
			continue
		}
		value, wrong, err := d.text(MaxText)
		if err != nil {
			return err
		}
		if seen[i] {
			wrong = duplicate
		}
		if seen[i] = true; wrong != "" {
			value, e.flawed = string(wrong), true
		}
		e.values[i] = value
	}
	_, err = d.from.Token()
	return err
}

// keep adds an entry to the snapshot.
func (d *decoder) keep(e entry) error {
	switch _, ok := d.next.nodes[e.name]; {
	case e.nameless != "":
		d.unnamed("name " + string(e.nameless[1:]))
		return nil
	case len(validation.IsDNS1123Subdomain(e.name)) > 0:
		d.unnamed("name is " + shown(e.name))
		return nil
	case ok:
		e.wrong = listedTwice
	}
	if e.wrong != "" {
		e.uuid, e.values, e.flawed = string(e.wrong), nil, true
	}
	for i, value := range e.values {
		d.present[i] = d.present[i] || value != ""
	}
	var packed packing.Writer
	packed.Texts(e.values)
	d.kept += nodeCost + len(e.name) + len(e.uuid) + len(packed)
	if e.flawed {
		d.next.flawed = append(d.next.flawed, strings.Clone(e.name))
		d.kept += flawCost + len(e.name)
	}
	if d.kept > d.source.Kept {
		return fmt.Errorf("what is kept of it takes more than %d MiB: %w", d.source.Kept>>20, ErrKeepsTooMuch)
	}
	d.next.nodes[strings.Clone(e.name)] = node{uuid: e.uuid, values: string(packed)}
	return nil
}

// unnamed counts an entry that names no Node, and keeps the first.
func (d *decoder) unnamed(reason string) {
	if d.next.unnamed++; d.next.unnamed == 1 {
		d.next.firstOf = fmt.Sprintf("nodes[%d]: %s", d.entries, reason)
	}
}
