package record

// Isolate is the record of a machine that registered under the name of another one. It keeps the other machine's record next to it. Nothing
// is restored until an operator accepts a side. Observations that are older than o still count for the other machine.
func Isolate(r Record, o Observation, machine Machine) Record {
	own := Record{Node: r.Node, Cluster: r.Cluster, Machine: machine, Quarantined: &r}
	if o.Version > 0 {
		own.Floor = o.Version - 1
	}
	return Merge(own, o)
}

// AcceptNew is the record once an operator has decided that the new machine keeps its own labels and taints.
func AcceptNew(r Record) Record {
	r.Quarantined = nil
	return r
}

// AcceptOld is the record after an operator's decision that the new machine gets the old one's record. The parameter live is the Node as it
// was read for this; zero if there is none. This state or a later one counts when it is observed next. Older states of any object do not
// count, so that none brings back what the operator has refused.
func AcceptOld(r Record, live Object) Record {
	if r.Quarantined == nil {
		return r
	}
	if !r.Isolated() {
		return r.withHeld()
	}
	if live.Version < r.Newest().Version {
		live = r.Newest()
	}
	accepted := *r.Quarantined
	accepted.Machine, accepted.Derived, accepted.DeletedAt, accepted.Seen = r.Machine, r.Derived, r.DeletedAt, nil
	if live.Version > 0 {
		accepted.Seen = []Object{live}
		accepted.forget(live.Version - 1)
	}
	return accepted
}
