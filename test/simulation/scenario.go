package main

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// tell returns what a step did: the states, the records, and what was observed.
func (m *model) tell(prev, next *world) string {
	var b strings.Builder
	for i := len(prev.log); i < len(next.log); i++ {
		fmt.Fprintf(&b, "#   version %d: %s\n", i+1, m.describe(next.log[i]))
	}
	for i := range next.log {
		if bit := uint64(1) << i; next.observed&bit != 0 && prev.observed&bit == 0 {
			fmt.Fprintf(&b, "#   observed: version %d\n", i+1)
		}
	}
	for i := len(prev.records); i < len(next.records); i++ {
		fmt.Fprintf(&b, "#   record %d: %s\n", i, describeRecord(next.records[i].Record))
	}
	return b.String()
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
		if i.Owner != oracle.NoOwner {
			fmt.Fprintf(&b, " by %s", [...]string{"", "a client", "the kubelet"}[i.Owner])
		}
		if i.Given != noValue {
			fmt.Fprintf(&b, " (given %q since %d)", values[i.Given], i.Start)
		}
		if i.Brought != noValue {
			fmt.Fprintf(&b, " (brought %q)", values[i.Brought])
		}
		if i.Rule != noValue {
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
