package main

import (
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// step carries out a step and reports whether it changed anything.
func (m *model) step(w *world, s step) bool {
	var next state
	if w.live() {
		next = *w.tip()
		next.edited, next.bare = [maxKeys]bool{}, false
	}
	switch s.kind {
	case reconciles:
		return m.reconcile(w, int(s.a))
	case takes:
		w.captures[s.a] = capture{taken: w.captures[s.a].taken + 1}
	case restarts:
		w.left.faults--
		prev := w.captures[s.a]
		w.captures[s.a] = capture{taken: int8(len(w.log)), done: !w.live()}
		return w.captures[s.a] != prev
	case patchesStale:
		w.left.faults--
		return m.patch(w, &w.records[s.b].Record, &w.records[len(w.records)-1].Record)
	case edits:
		w.left.edits--
		i := &next.items[s.a]
		i.Value, i.Owner = s.b, oracle.Client
		if s.b == noValue || m.Taints[s.a] || m.Owned && s.b == i.Given {
			i.Owner = oracle.NoOwner
		}
		next.edited[s.a] = !i.Derived()
		if m.Rule && s.a == 0 && w.tip().items[0].Derived() && s.b == noValue {
			next.edited[0] = false // the client's own was not there
		}
		w.push(next)
	case applies:
		w.left.edits--
		next.items[s.a].Owner, next.edited[s.a] = oracle.Client, true
		w.push(next)
	case beats:
		w.left.heartbeats--
		w.push(next)
	case cancels:
		w.left.cancelled--
		m.aboutToBeDeleted(w)
	case deletes, deletesUnobserved:
		if s.kind == deletesUnobserved {
			w.left.faults--
		} else {
			m.aboutToBeDeleted(w)
		}
		next.deleted = true
		w.push(next)
	case registers, registersBring, registersKubelet, registersStale, registersAlone:
		m.registerStep(w, s)
	case kubeletRestarts:
		next.items[0].Value, next.items[0].Owner = kubeletValue, oracle.Kubelet
		w.push(next)
	case unstamps:
		w.left.unstamps--
		next.bare = true
		for k := range next.items {
			i := &next.items[k]
			next.edited[k] = i.Value != noValue && !i.Decision(m.Taints[k]) && i.Owner != oracle.Kubelet && !i.Derived()
			i.Given, i.From, i.Start, i.Brought = noValue, 0, 0, noValue
		}
		w.push(next)
	case vanishes, putsBack, writesManually:
		w.left.losses--
		m.lose(w, s)
	case policyChanges:
		w.left.policies--
		w.ignores = !w.ignores
		m.resync(w)
	case acceptsOld, acceptsNew:
		m.accept(w, s.kind == acceptsOld)
	}
	return true
}

// lose has a client delete the record, put an older one in its place, or write one manually. What processes had merged since is lost with it.
func (m *model) lose(w *world, s step) {
	switch s.kind {
	case vanishes:
		w.merged = merged{}
		m.write(w, record.Record{})
	case putsBack:
		w.merged = w.records[s.a].merged
		m.write(w, w.records[s.a].Record)
	default:
		w.merged = merged{settled: s.b}
		m.write(w, record.New("", record.Object{}, map[string]string{m.names[0]: values[s.b]}))
	}
	m.resync(w)
}

// resync has each capture work once more on the newest state, as it does when the policy changes.
func (m *model) resync(w *world) {
	for i := range m.Captures {
		if c := &w.captures[i]; int(c.taken) == len(w.log) && w.live() {
			c.done = false
		}
	}
}

func (m *model) registerStep(w *world, s step) {
	now := w.record()
	from := &now
	brings, by := noValue, oracle.NoOwner
	switch s.kind {
	case registersBring:
		w.left.edits--
		brings = s.a
	case registersKubelet:
		brings = kubeletValue
	case registersStale:
		w.left.faults--
		from = &w.records[s.a].Record
	case registersAlone:
		w.left.faults--
		from, brings = nil, s.a
	}
	if brings == kubeletValue && !m.Taints[0] {
		by = oracle.Kubelet
	}
	m.register(w, from, brings, by, s.b)
}

// aboutToBeDeleted is the DELETE handler: it reads the Node live and merges that as final.
func (m *model) aboutToBeDeleted(w *world) {
	i := len(w.log) - 1
	o := m.observation(w, i)
	o.Final = true
	m.observe(w, i, o)
}

// accept is an operator's decision about a name that two machines had. The Node's next state is observed after it.
func (m *model) accept(w *world, old bool) {
	r := w.record()
	current, waiting := sideOf(r.Machine), sideOf(r.Quarantined.Machine)
	next := *w.tip()
	next.edited, next.bare = [maxKeys]bool{}, false
	log := make([]*state, len(w.log))
	for i, s := range w.log {
		decided := *s
		decided.void = s.void || old && s.side == current || !old && s.side == waiting
		if old && s.side == waiting {
			decided.side = current
		}
		log[i] = &decided
	}
	w.log = log
	w.logHash = hash{}
	for _, s := range log {
		w.logHash = w.logHash.add(s.hash())
	}
	if old {
		for k, i := range next.items {
			listed, _ := i.Listed()
			next.edited[k] = i.Decision(m.Taints[k]) || i.Value == noValue && listed != noValue
		}
		m.write(w, record.AcceptOld(r, record.Object{UID: uid(w.tip().object), Version: record.Version(len(w.log))}))
	} else {
		m.write(w, record.AcceptNew(r))
	}
	w.push(next)
}
