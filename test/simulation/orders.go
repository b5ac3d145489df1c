package main

import (
	"fmt"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// orders are all histories of one key up to a length, and all subsets of their states. Processes can observe these in any order, each as often as
// they like.
type orders struct {
	model
	length   int
	unstamps bool
	end      time.Time
	ordersResult
}

type ordersResult struct {
	Histories, Subsets, Orders int64
	Excused                    [oracle.Excuses]int64
	Exhaustive                 bool
	Violation                  string
}

// history is a log. For each subset of its states, it has the records that some order of observing them leads to.
type history struct {
	log     []*state
	about   []oracle.State // what the oracle is asked about
	results [][]record.Record
}

func (m *model) orders(length int, unstamps bool, limit time.Duration) ordersResult {
	o := &orders{model: *m, length: length, unstamps: unstamps, end: time.Now().Add(limit)}
	o.Exhaustive = true
	o.grow(history{results: [][]record.Record{{{}}}})
	return o.ordersResult
}

func (o *orders) grow(h history) {
	if o.Violation != "" || !o.Exhaustive || len(h.log) == o.length {
		return
	}
	if o.Histories%64 == 0 && time.Now().After(o.end) {
		o.Exhaustive = false
		return
	}
	for _, s := range o.successors(h.log) {
		if next := o.extend(h, s); o.Violation == "" {
			o.grow(next)
		}
	}
}

// extend returns the history with one more state, and what becomes of the subsets that have it.
func (o *orders) extend(h history, s state) history {
	o.Histories++
	n := len(h.log)
	next := history{log: append(h.log[:n:n], &s), results: append(h.results[:1<<n:1<<n], make([][]record.Record, 1<<n)...)}
	next.about = about(next.log, 0, 0)
	observations := make([]record.Observation, n+1)
	for i, s := range next.log {
		observations[i] = s.observe(i, o.names, false, o.Owned)
		observations[i].Final = s.deleted
	}
	for set := 1 << n; set < 1<<(n+1) && o.Violation == ""; set++ {
		next.results[set] = o.reach(next.results, observations, set)
		o.judgeSet(next, set)
	}
	return next
}

// reach returns every record that some order of observing a set leads to, with any of them observed again.
func (o *orders) reach(results [][]record.Record, observations []record.Observation, set int) (all []record.Record) {
	known := map[hash]bool{}
	add := func(r record.Record) {
		if h := hashOf(r); !known[h] {
			known[h] = true
			all = append(all, r)
		}
	}
	for i := range observations {
		if set&(1<<i) != 0 {
			for _, r := range results[set&^(1<<i)] {
				add(record.Merge(r, observations[i]))
			}
		}
	}
	for i := 0; i < len(all); i++ {
		for pos := range observations {
			if set&(1<<pos) != 0 {
				add(record.Merge(all[i], observations[pos]))
			}
		}
	}
	return all
}

func (o *orders) judgeSet(h history, set int) {
	o.Subsets++
	size, orders := 0, int64(1)
	for i := range h.log {
		if set&(1<<i) != 0 {
			size++
			orders *= int64(size)
		}
	}
	o.Orders += orders
	q := oracle.Question{Log: h.about, Taint: o.Taints[0], Seen: func(i int) oracle.Observation {
		if set&(1<<i) != 0 {
			return oracle.Observed
		}
		return oracle.NotObserved
	}}
	want, strict := q.Wanted(), q.Last()
	for _, r := range h.results[set] {
		got := remembered(r, o.names[0])
		switch {
		case got == strict:
			o.Excused[oracle.Promised]++
		case want.Allows(got):
			o.Excused[want.Excuse]++
		case lostRecord(h.log, set, got):
			o.Excused[oracle.Lost]++
		default:
			o.Violation = fmt.Sprintf("some order of observing %s leads to %q, and %q was wanted last\n%s", o.sets(h, set), values[got], values[want.Value], describeRecord(r))
			return
		}
	}
}

// lostRecord reports whether a value was given from a state that the set lacks. The record which had that state is lost then. What was decided
// between that state and those of the set cannot be known.
func lostRecord(log []*state, set int, value int8) bool {
	for pos, s := range log {
		if i := s.items[0]; set&(1<<pos) != 0 && (value == noValue || value == i.Given) && i.From > 0 && set&(1<<(i.From-1)) == 0 {
			return true
		}
	}
	return false
}

func (o *orders) sets(h history, set int) string {
	var b strings.Builder
	for i, s := range h.log {
		mark := " "
		if set&(1<<i) != 0 {
			mark = "*"
		}
		fmt.Fprintf(&b, "\n%s version %d: %s", mark, i+1, o.describe(s))
	}
	return b.String() + "\n"
}

// successors returns the states that can come next, from any process. They include a restore or a correction by nodekeep to any value: some record, maybe
// an old one, had it.
func (o *orders) successors(log []*state) (next []state) {
	if len(log) == 0 || log[len(log)-1].deleted {
		object := int8(1)
		if len(log) > 0 {
			object = log[len(log)-1].object + 1
		}
		if object > o.Objects {
			return nil
		}
		return o.created(log, object)
	}
	now := *log[len(log)-1]
	now.edited, now.bare = [maxKeys]bool{}, false
	pos := len(log)
	i := now.items[0]
	add := func(i oracle.Item, edited bool) {
		s := now
		s.items[0], s.edited[0] = i, edited
		next = append(next, s)
	}
	for v := noValue; v <= o.Values; v++ {
		set := i
		set.Value, set.Owner = v, oracle.Client
		if o.Taints[0] || v == noValue || o.Owned && v == i.Given {
			set.Owner = oracle.NoOwner
		}
		if set != i && (v != noValue || i.Value != noValue) {
			add(set, true)
		}
	}
	if o.Kubelet && !o.Taints[0] && i.Value != kubeletValue {
		set := i
		set.Value, set.Owner = kubeletValue, oracle.Kubelet
		add(set, false)
	}
	listed, _ := i.Listed()
	if i.Value == noValue && listed == noValue {
		for v := int8(1); v <= o.Values; v++ {
			if from := decidedOn(log, v); from > 0 {
				add(oracle.Item{Value: v, Given: v, From: from, Start: pos}, false)
			}
		}
	}
	if i.Value != noValue && i.Value == i.Given && i.Owner == oracle.NoOwner {
		if decidedOn(log, noValue) > i.From {
			add(oracle.Item{}, false)
		}
		if from := decidedOn(log, 3-i.Value); from > i.From {
			add(oracle.Item{Value: 3 - i.Value, Given: 3 - i.Value, From: from, Start: pos}, false)
		}
	}
	if o.unstamps && listed != noValue {
		bare := i
		bare.Given, bare.From, bare.Start, bare.Brought = noValue, 0, 0, noValue
		add(bare, i.Value != noValue && !i.Decision(o.Taints[0]) && i.Owner != oracle.Kubelet)
		next[len(next)-1].bare = true
	}
	end := now
	end.deleted = true
	return append(next, end)
}

// decidedOn returns the version of the last state by which a client decided on a value; 0 if none did.
func decidedOn(log []*state, v int8) int {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].edited[0] && log[i].items[0].Value == v {
			return i + 1
		}
	}
	return 0
}

func (o *orders) created(log []*state, object int8) (next []state) {
	add := func(i oracle.Item, edited bool) {
		s := state{object: object}
		s.items[0], s.edited[0] = i, edited
		next = append(next, s)
	}
	add(oracle.Item{}, false)
	for v := int8(1); v <= o.Values; v++ {
		if from := decidedOn(log, v); from > 0 {
			add(oracle.Item{Value: v, Given: v, From: from}, false)
		}
		if o.Admission {
			add(oracle.Item{Value: v}, true)
			if !o.Taints[0] { // nobody can tell a taint of another admission policy from the kubelet's
				add(oracle.Item{Value: v, Brought: v}, true)
			}
		}
	}
	if o.Kubelet {
		by := oracle.Kubelet
		if o.Taints[0] {
			by = oracle.NoOwner
		}
		add(oracle.Item{Value: kubeletValue, Owner: by, Brought: kubeletValue}, false)
		add(oracle.Item{Value: kubeletValue, Owner: by}, o.Taints[0])
	}
	return next
}
