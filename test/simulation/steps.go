package main

import (
	"fmt"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// step is one thing that happens: its text, and what it does. It reports whether anything changed.
type step struct {
	kind kind
	a, b int8
}

type kind int8

const (
	reconciles kind = iota
	takes
	restarts
	patchesStale
	edits
	applies
	beats
	cancels
	deletes
	deletesUnobserved
	registers
	registersBring
	registersKubelet
	registersStale
	registersAlone
	kubeletRestarts
	unstamps
	vanishes
	putsBack
	writesManually
	policyChanges
	acceptsOld
	acceptsNew
)

// text returns the step as a scenario has it, one line each.
func (m *model) text(s step) string {
	value := func(v int8) string { return fmt.Sprintf("%q", values[v]) }
	machine := ""
	if m.Machines != "" {
		machine = fmt.Sprintf(" on machine %c", 'A'+s.b-1)
	}
	switch s.kind {
	case reconciles:
		return fmt.Sprintf("capture %d reconciles", s.a+1)
	case takes:
		return fmt.Sprintf("capture %d takes the next state from its queue", s.a+1)
	case restarts:
		return fmt.Sprintf("capture %d restarts", s.a+1)
	case patchesStale:
		return fmt.Sprintf("capture %d patches the Node by record %d", s.a+1, s.b)
	case edits:
		if s.b == noValue {
			return fmt.Sprintf("a client removes %s", m.names[s.a])
		}
		return fmt.Sprintf("a client sets %s to %s", m.names[s.a], value(s.b))
	case applies:
		return fmt.Sprintf("a client applies %s as it is", m.names[s.a])
	case beats:
		return "the kubelet sends a heartbeat"
	case cancels:
		return "a deletion reaches the DELETE handler and fails"
	case deletes:
		return "a client deletes the Node"
	case deletesUnobserved:
		return "a client deletes the Node while the DELETE handler is down"
	case registers:
		return "the Node registers" + machine
	case registersBring:
		return fmt.Sprintf("the Node registers%s, and another admission policy sets %s to %s", machine, m.names[0], value(s.a))
	case registersKubelet:
		return fmt.Sprintf("the Node registers%s with the kubelet's own %s", machine, m.names[0])
	case registersStale:
		return fmt.Sprintf("the Node registers%s, and the webhook restores record %d", machine, s.a)
	case registersAlone:
		if s.a == kubeletValue {
			return fmt.Sprintf("the Node registers%s with the kubelet's own %s while the webhook is down", machine, m.names[0])
		}
		return "the Node registers" + machine + " while the webhook is down"
	case kubeletRestarts:
		return fmt.Sprintf("the kubelet restarts and sets its own %s", m.names[0])
	case unstamps:
		return "a client removes the annotation"
	case vanishes:
		return "a client deletes the record"
	case putsBack:
		return fmt.Sprintf("a client puts record %d back", s.a)
	case writesManually:
		return fmt.Sprintf("a client replaces the record by one that has %s=%s and no version", m.names[0], value(s.b))
	case policyChanges:
		return fmt.Sprintf("the policy changes whether it selects %s", m.names[0])
	case acceptsOld:
		return "an operator accepts the old machine"
	default:
		return "an operator accepts the new machine"
	}
}

// steps returns all that can happen next.
func (m *model) steps(w *world) (all []step) {
	add := func(k kind, a, b int8) { all = append(all, step{kind: k, a: a, b: b}) }
	for i := range int8(m.Captures) {
		c := w.captures[i]
		if c.taken > 0 && !c.done {
			add(reconciles, i, 0)
		}
		if int(c.taken) < len(w.log) && (c.taken == 0 || !w.log[c.taken-1].deleted || c.done) {
			add(takes, i, 0)
		}
		if w.left.faults > 0 && len(w.log) > 0 {
			add(restarts, i, 0)
			if w.live() && int(c.taken) == len(w.log) {
				for j := range len(w.records) - 1 {
					add(patchesStale, i, int8(j))
				}
			}
		}
	}
	if w.left.losses > 0 && len(w.records) > 1 {
		add(vanishes, 0, 0)
		for j := 1; j < len(w.records)-1; j++ {
			add(putsBack, int8(j), 0)
		}
		for v := int8(1); v <= min(m.Values, w.used(0)); v++ {
			add(writesManually, 0, v)
		}
	}
	if w.left.policies > 0 && len(w.log) > 0 {
		add(policyChanges, 0, 0)
	}
	if w.live() {
		m.liveSteps(w, add)
	} else if w.left.objects > 0 {
		m.registrations(w, add)
	}
	return all
}

func (m *model) liveSteps(w *world, add func(k kind, a, b int8)) {
	if w.left.edits > 0 {
		for k := range int8(m.Keys) {
			now := w.tip().items[k]
			for v := noValue; v <= min(m.Values, w.used(k)+1); v++ {
				if v != now.Value {
					add(edits, k, v)
				}
			}
			if now.Given != noValue && now.Value == now.Given && now.Owner == oracle.NoOwner && !m.Taints[k] {
				add(applies, k, 0)
			}
		}
	}
	if w.left.heartbeats > 0 {
		add(beats, 0, 0)
	}
	if w.left.cancelled > 0 {
		add(cancels, 0, 0)
	}
	add(deletes, 0, 0)
	if w.left.faults > 0 {
		add(deletesUnobserved, 0, 0)
	}
	if m.Kubelet && !m.Taints[0] && w.configured() && w.tip().items[0].Value != kubeletValue {
		add(kubeletRestarts, 0, 0)
	}
	if w.left.unstamps > 0 && w.tip().stamped() {
		add(unstamps, 0, 0)
	}
	if w.record().Quarantined != nil && w.tip().object == w.newestObject() {
		add(acceptsOld, 0, 0)
		add(acceptsNew, 0, 0)
	}
}

// registrations are the ways in which the next object comes to be.
func (m *model) registrations(w *world, add func(k kind, a, b int8)) {
	first, last := int8(0), int8(0)
	if m.Machines != "" {
		first, last = 1, min(w.usedMachines()+1, int8(len(machines)-1)) // with machines exchanged it is the same scenario
	}
	for machine := first; machine <= last; machine++ {
		add(registers, 0, machine)
		if m.Admission && w.left.edits > 0 {
			for v := int8(1); v <= min(m.Values, w.used(0)+1); v++ {
				add(registersBring, v, machine)
			}
		}
		if m.Kubelet {
			add(registersKubelet, 0, machine)
		}
		if w.left.faults == 0 || len(w.records) == 1 {
			continue
		}
		add(registersAlone, 0, machine)
		if m.Kubelet {
			add(registersAlone, kubeletValue, machine)
		}
		for j := 1; j < len(w.records)-1; j++ {
			add(registersStale, int8(j), machine)
		}
	}
}

// used returns the greatest value that clients have set a key to. A scenario with values exchanged is the same scenario.
func (w *world) used(k int8) (highest int8) {
	for _, s := range w.log {
		if v := s.items[k].Value; v != kubeletValue {
			highest = max(highest, v)
		}
	}
	return highest
}

// usedMachines returns how many machines have had the name.
func (w *world) usedMachines() (highest int8) {
	for _, s := range w.log {
		highest = max(highest, s.machine)
	}
	return highest
}

// configured reports whether the kubelet of this object has a value of its own.
func (w *world) configured() bool {
	for _, s := range w.log {
		if s.object == w.tip().object && s.items[0].Value == kubeletValue {
			return true
		}
	}
	return false
}

func (w *world) newestObject() int8 {
	return int8(w.record().Newest().UID[1] - '0')
}

func (s *state) stamped() bool {
	for _, i := range s.items {
		if l, _ := i.Listed(); l != noValue {
			return true
		}
	}
	return false
}
