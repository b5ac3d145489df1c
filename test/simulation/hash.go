package main

import (
	"math/bits"

	"nodekeep.dev/nodekeep/record"
)

// hash is 128 bits that stand for a world. Two different worlds have the same one by chance only: one in 10^20 for the largest bounds.
type hash struct{ a, b uint64 }

func (h hash) mix(x uint64) hash {
	const p, q = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	hi, lo := bits.Mul64(h.a^x^p, q)
	hi2, lo2 := bits.Mul64(h.b^bits.RotateLeft64(x, 32)^q, p)
	return hash{hi ^ lo + lo2, hi2 ^ lo2 + bits.RotateLeft64(lo, 17)}
}

func (h hash) add(o hash) hash { return h.mix(o.a).mix(o.b) }

func (h hash) text(s string) hash {
	x := uint64(len(s))
	for i := range len(s) {
		x = x<<8 | uint64(s[i])
		if i%7 == 6 {
			h, x = h.mix(x), 0
		}
	}
	return h.mix(x)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (s *state) hash() hash {
	h := hash{1, 2}.mix(uint64(s.object)<<24 | uint64(s.side)<<16 | uint64(s.machine)<<8 | bit(s.deleted) | bit(s.void)<<1 | bit(s.bare)<<2)
	for k, i := range s.items {
		x := bit(s.edited[k])
		for _, v := range [...]int8{i.Value, int8(i.Owner), i.Given, int8(i.From), int8(i.Start), i.Brought, i.Rule} {
			x = x<<8 | uint64(uint8(v))
		}
		h = h.mix(x)
	}
	return h
}

// hashOf returns that of a record. Whether the Node shows a value is for display.
func hashOf(r record.Record) hash {
	h := hash{3, 4}.mix(uint64(r.Floor)).mix(bit(r.DeletedAt.IsZero()) | uint64(len(r.Entries))<<8 | uint64(len(r.Seen))<<16).text(r.Machine.SystemUUID)
	for _, e := range r.Entries {
		h = h.text(e.Key).text(e.Value).text(string(e.Owners)).mix(uint64(e.Version)<<1 | bit(e.Removed))
	}
	for _, o := range r.Seen {
		h = h.text(string(o.UID)).mix(uint64(o.Version))
	}
	if r.Quarantined != nil {
		h = h.add(hashOf(*r.Quarantined))
	}
	for _, e := range r.Earlier {
		h = h.mix(5).add(hashOf(e))
	}
	return h
}

// hash stands for all that the future of the world and its check depend on.
func (m *model) hash(w *world) hash {
	h := w.logHash
	if w.left.faults == 0 { // nobody reads an older record any more
		h = h.add(w.records[len(w.records)-1].hash).mix(bit(len(w.records) > 1))
	} else {
		h = h.add(w.recordsHash)
	}
	a, b := w.captures[0], w.captures[1]
	if m.Captures == 2 && (a.taken < b.taken || a.taken == b.taken && a.done && !b.done) {
		a, b = b, a
	}
	l := w.left
	h = h.mix(uint64(a.taken)<<8 | uint64(b.taken)<<16 | bit(a.done) | bit(b.done)<<1 | bit(w.ignores)<<2 | bit(w.tooFar)<<3 | bit(w.broken)<<4)
	h = h.mix(w.observed).mix(w.unselected).mix(w.soft).mix(w.lost).mix(uint64(w.settled))
	x := uint64(0)
	for _, n := range [...]int8{l.objects, l.edits, l.faults, l.heartbeats, l.cancelled, l.policies, l.unstamps, l.losses} {
		x = x<<8 | uint64(n)
	}
	return h.mix(x)
}
