package main

import (
	"fmt"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/record"
)

// orders are all histories of one key up to a length, all subsets of their states, and all orders in which processes can observe
// these, each as often as they like.
type orders struct {
	model
	length   int
	unstamps bool
	until    time.Time
	ordersResult
}

type ordersResult struct {
	Histories, Subsets, Orders int64
	Excused                    [excuses]int64
	Exhaustive                 bool
	Violation                  string
}

// history is a log with, for each subset of its states, the records that some order of observing them leads to.
type history struct {
	log     []*state
	results [][]record.Record
}

func (m *model) orders(length int, unstamps bool, limit time.Duration) ordersResult {
	o := &orders{model: *m, length: length, unstamps: unstamps, until: time.Now().Add(limit)}
	o.Exhaustive = true
	o.grow(history{results: [][]record.Record{{{}}}})
	return o.ordersResult
}

func (o *orders) grow(h history) {
	if o.Violation != "" || !o.Exhaustive || len(h.log) == o.length {
		return
	}
	if o.Histories%64 == 0 && time.Now().After(o.until) {
		o.Exhaustive = false
		return
	}
	for _, s := range o.successors(h.log) {
		if next := o.extend(h, s); o.Violation == "" {
			o.grow(next)
		}
	}
}

// extend is the history with one more state, and what becomes of the subsets that have it.
func (o *orders) extend(h history, s state) history {
	o.Histories++
	n := len(h.log)
	next := history{log: append(h.log[:n:n], &s), results: append(h.results[:1<<n:1<<n], make([][]record.Record, 1<<n)...)}
	observations := make([]record.Observation, n+1)
	for at, s := range next.log {
		observations[at] = s.observe(at, o.names, false)
		observations[at].Final = s.deleted
	}
	for set := 1 << n; set < 1<<(n+1) && o.Violation == ""; set++ {
		next.results[set] = o.reach(next.results, observations, set)
		o.judgeSet(next, set)
	}
	return next
}

// reach is every record that some order of observing a set leads to, with any of them observed again.
func (o *orders) reach(results [][]record.Record, observations []record.Observation, set int) (all []record.Record) {
	known := map[hash]bool{}
	add := func(r record.Record) {
		if h := hashOf(r); !known[h] {
			known[h] = true
			all = append(all, r)
		}
	}
	for at := range observations {
		if set&(1<<at) != 0 {
			for _, r := range results[set&^(1<<at)] {
				add(record.Merge(r, observations[at]))
			}
		}
	}
	for i := 0; i < len(all); i++ {
		for at := range observations {
			if set&(1<<at) != 0 {
				add(record.Merge(all[i], observations[at]))
			}
		}
	}
	return all
}

func (o *orders) judgeSet(h history, set int) {
	o.Subsets++
	size, orders := 0, int64(1)
	for at := range h.log {
		if set&(1<<at) != 0 {
			size++
			orders *= int64(size)
		}
	}
	o.Orders += orders
	want := wanted(h.log, func(at int) sight {
		if set&(1<<at) != 0 {
			return observed
		}
		return notObserved
	}, 0, o.Taints[0])
	strict := last(h.log, 0)
	for _, r := range h.results[set] {
		got := remembered(r, o.names[0])
		switch {
		case got == strict:
			o.Excused[promised]++
		case want.allows(got):
			o.Excused[want.why]++
		default:
			o.Violation = fmt.Sprintf("some order of observing %s leads to %q, and %q was wanted last\n%s", o.sets(h, set), values[got], values[want.value], describeRecord(r))
			return
		}
	}
}

func (o *orders) sets(h history, set int) string {
	var b strings.Builder
	for at, s := range h.log {
		mark := " "
		if set&(1<<at) != 0 {
			mark = "*"
		}
		fmt.Fprintf(&b, "\n%s version %d: %s", mark, at+1, o.describe(s))
	}
	return b.String() + "\n"
}

// successors are the states that can come next, whoever makes them. nodekeep may restore or correct to any value: some record, maybe an
// old one, had it.
func (o *orders) successors(log []*state) (next []state) {
	if len(log) == 0 || log[len(log)-1].deleted {
		object := int8(1)
		if len(log) > 0 {
			object = log[len(log)-1].object + 1
		}
		if object > o.Objects {
			return nil
		}
		return o.created(object)
	}
	now := *log[len(log)-1]
	now.edited, now.bare = [maxKeys]bool{}, false
	at := int8(len(log))
	i := now.items[0]
	add := func(i item, edited bool) {
		s := now
		s.items[0], s.edited[0] = i, edited
		next = append(next, s)
	}
	for v := none; v <= o.Values; v++ {
		set := i
		set.value, set.owner = v, client
		if o.Taints[0] || v == none {
			set.owner = nobody
		}
		if set != i && (v != none || i.value != none) {
			add(set, true)
		}
	}
	if o.Kubelet && !o.Taints[0] && i.value != own {
		set := i
		set.value, set.owner = own, kubelet
		add(set, false)
	}
	listed, _ := i.listed()
	if i.value == none && listed == none {
		for v := int8(1); v <= o.Values; v++ {
			add(item{value: v, given: v, since: at}, false)
		}
	}
	if i.value != none && i.value == i.given && i.owner == nobody {
		add(item{}, false)
		add(item{value: 3 - i.value, given: 3 - i.value, since: at}, false)
	}
	if o.unstamps && listed != none {
		bare := i
		bare.given, bare.since, bare.brought = none, 0, none
		add(bare, i.value != none && !i.decision(o.Taints[0]) && i.owner != kubelet)
		next[len(next)-1].bare = true
	}
	end := now
	end.deleted = true
	return append(next, end)
}

func (o *orders) created(object int8) (next []state) {
	add := func(i item, edited bool) {
		s := state{object: object}
		s.items[0], s.edited[0] = i, edited
		next = append(next, s)
	}
	add(item{}, false)
	for v := int8(1); v <= o.Values; v++ {
		add(item{value: v, given: v}, false)
		if o.Admission {
			add(item{value: v}, true)
			if !o.Taints[0] { // nobody can tell a taint of another admission policy from the kubelet's
				add(item{value: v, brought: v}, true)
			}
		}
	}
	if o.Kubelet {
		by := kubelet
		if o.Taints[0] {
			by = nobody
		}
		add(item{value: own, owner: by, brought: own}, false)
		add(item{value: own, owner: by}, o.Taints[0])
	}
	return next
}
