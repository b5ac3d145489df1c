package main

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// What the states of a scenario look like to the product.

var (
	values   = [...]string{noValue: "", 1: "one", 2: "two", kubeletValue: "own"}
	machines = [...]record.Machine{{}, {SystemUUID: "A"}, {SystemUUID: "B"}, {SystemUUID: "C"}}
	deleted  = time.Unix(1, 0)
)

func valueOf(text string) int8 {
	for value, known := range values {
		if known == text {
			return int8(value)
		}
	}
	panic("the record holds a value that nobody set: " + text)
}

func uid(object int8) types.UID { return types.UID("U" + strconv.Itoa(int(object))) }

// keyNames returns the keys of a scenario as the record names them.
func keyNames(taints [maxKeys]bool) (names [maxKeys]string) {
	for k := range names {
		names[k] = "k" + strconv.Itoa(k)
		if taints[k] {
			names[k] += ":NoSchedule"
		}
	}
	return names
}

// observation returns what a process reads of a state.
func (m *model) observation(w *world, i int) record.Observation {
	s := w.log[i]
	read := &s.read[bit(w.ignores)]
	if *read == nil {
		*read = s.observe(i, m.names, w.ignores, m.Owned)
	}
	o := (*read).(record.Observation)
	if m.policy.TellsMachinesApart() {
		o.Machine = machines[s.machine]
	}
	return o
}

// The owner of a label that a client set; and the owners once another client has applied the same.
const (
	owner  record.Owners = "Update kubectl-label"
	owners record.Owners = "Apply argocd-controller\n" + owner
)

func (s *state) observe(i int, names [maxKeys]string, ignores, owned bool) record.Observation {
	o := record.Observation{UID: uid(s.object), Version: record.Version(i + 1), Items: map[string]record.Item{}}
	if s.deleted {
		o.Final, o.DeletedAt = true, deleted
	}
	for k, i := range s.items {
		name := names[k]
		if i.Value != noValue {
			shown := record.Item{Value: values[i.Value]}
			switch {
			case i.Derived():
				shown.Owner = record.Rule
			case i.Owner == oracle.Kubelet || ignores && k == 0:
				shown.Owner = record.OtherOwner
			case i.Owner == oracle.Client && owned && i.Value == i.Given:
				shown.Owner, shown.Owners = record.Client, owners
			case i.Owner == oracle.Client, owned && !record.IsTaint(name) && i.Value == i.Given:
				shown.Owner, shown.Owners = record.Client, owner
			}
			o.Items[name] = shown
		}
		if i.Given != noValue {
			if o.Stamp.Given == nil {
				o.Stamp.Given = map[string]record.Given{}
			}
			given := record.Given{Value: values[i.Given], From: record.Version(max(i.From, 0)), Version: record.Version(i.Start)}
			if owned && !record.IsTaint(name) {
				given.Owners = owner
			}
			o.Stamp.Given[name] = given
		}
		if i.Brought != noValue {
			if o.Stamp.Brought == nil {
				o.Stamp.Brought = map[string]string{}
			}
			o.Stamp.Brought[name] = values[i.Brought]
		}
	}
	return o
}

// remembered returns the value that a record has of a key.
func remembered(r record.Record, name string) int8 {
	e, ok := r.Entry(name)
	if !ok || e.Removed {
		return noValue
	}
	return valueOf(e.Value)
}
