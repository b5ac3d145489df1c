package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// A scenario is text: one step a line, as [model.text] has it. Lines that begin with # are comments: what the step did.

// scenario is steps as text, with what each did.
func (m *model) scenario(steps []step) string {
	var b strings.Builder
	w := m.start()
	for _, s := range steps {
		m.tell(&b, &w, s)
	}
	fmt.Fprintf(&b, "# observed: %s\n", w.sights())
	return b.String()
}

func (m *model) tell(b *strings.Builder, w *world, s step) {
	states, records := len(w.log), len(w.records)
	m.do(w, s)
	fmt.Fprintln(b, m.text(s))
	for at := states; at < len(w.log); at++ {
		fmt.Fprintf(b, "#   version %d: %s\n", at+1, m.describe(w.log[at]))
	}
	for at := records; at < len(w.records); at++ {
		fmt.Fprintf(b, "#   record %d: %s\n", at, describeRecord(w.records[at].Record))
	}
}

func (m *model) describe(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", uid(s.object))
	if s.deleted {
		b.WriteString(" deleted")
	}
	for k, i := range s.items[:m.Keys] {
		if i == (oracle.Item{}) {
			continue
		}
		fmt.Fprintf(&b, ", %s=%q", m.names[k], values[i.Value])
		if i.Owner != oracle.Nobody {
			fmt.Fprintf(&b, " by %s", [...]string{"", "a client", "the kubelet"}[i.Owner])
		}
		if i.Given != none {
			fmt.Fprintf(&b, " (given %q since %d)", values[i.Given], i.Since)
		}
		if i.Brought != none {
			fmt.Fprintf(&b, " (brought %q)", values[i.Brought])
		}
		if i.Rule != none {
			b.WriteString(" (derived)")
		}
	}
	return b.String()
}

func describeRecord(r record.Record) string {
	var b strings.Builder
	for _, e := range r.Entries {
		if e.Removed {
			fmt.Fprintf(&b, "%s removed at %s, ", e.Key, e.Version)
		} else {
			fmt.Fprintf(&b, "%s=%q at %s, ", e.Key, e.Value, e.Version)
		}
	}
	for _, o := range r.Seen {
		fmt.Fprintf(&b, "%s until %s, ", o.UID, o.Version)
	}
	if r.Floor > 0 {
		fmt.Fprintf(&b, "forgotten until %s, ", r.Floor)
	}
	if r.Quarantined != nil {
		fmt.Fprintf(&b, "quarantined: [%s], ", describeRecord(*r.Quarantined))
	}
	return strings.TrimSuffix(b.String(), ", ")
}

func (w *world) sights() string {
	var b strings.Builder
	for at := range w.log {
		if w.observed&(1<<at) != 0 {
			fmt.Fprintf(&b, "%d ", at+1)
		}
	}
	return strings.TrimSpace(b.String())
}

// replay carries out a scenario. It fails at a line that is no step that can happen there.
func (m *model) replay(r io.Reader) (w world, steps []step, err error) {
	w = m.start()
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found := false
		for _, s := range m.steps(&w) {
			if found = m.text(s) == line; found {
				m.do(&w, s)
				steps = append(steps, s)
				break
			}
		}
		if !found {
			return w, steps, fmt.Errorf("line %d: %q cannot happen here", number, line)
		}
	}
	return w, steps, lines.Err()
}
