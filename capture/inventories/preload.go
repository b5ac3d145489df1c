package inventories

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Bounds of the records that are written ahead.
const (
	maxPreloaded          = 10_000
	preloadsPerSecond     = 20
	preloadRefreshDivisor = 2 // after half the retention a preloaded record gets a new deletedAt, so that it is not collected
)

// preloadAll writes records of Nodes that an inventory lists and that have never registered, after each change of an inventory. At CREATE the
// webhook takes the values of rules about inventories from records. The records count as those of deleted Nodes, so package gc removes them
// as it removes these.
func (s *Sources) preloadAll(ctx context.Context) {
	limiter := flowcontrol.NewTokenBucketRateLimiter(preloadsPerSecond, preloadsPerSecond)
	defer limiter.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.preloadSignal:
		}
		if err := s.Controller.CallRecovering("preload records", "", func() error { return s.preloadOnce(ctx, limiter.Wait) }); err != nil && ctx.Err() == nil {
			s.Logger.Warn("records of nodes that an inventory lists could not be written ahead", "error", err)
		}
	}
}

// preloadOnce writes the records that are missing, once.
func (s *Sources) preloadOnce(ctx context.Context, wait func(context.Context) error) error {
	p := s.Policy()
	listed := s.preloadNames(p)
	room := maxPreloaded
	if len(listed) > 0 {
		room -= s.countPreloaded()
	}
	left := 0
	for _, name := range listed {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		next, version, due := s.preloadOf(p, name)
		switch {
		case !due:
			continue
		case version == "" && room == 0:
			left++
			continue
		case version == "":
			room--
		}
		if err := wait(ctx); err != nil {
			return err
		}
		if err := s.putPreload(ctx, next, version); err != nil {
			return err
		}
	}
	s.locked(func() { s.notPreloaded = left })
	return nil
}

func (s *Sources) putPreload(ctx context.Context, next record.Record, version string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer s.Controller.LockNode(next.Node)()
	if s.Controller.Tracks(next.Node) {
		return nil
	}
	_, err := s.Records.Put(ctx, next, version)
	if errors.Is(err, store.ErrConflict) {
		return nil // the Node has registered, or another process has written its record
	}
	return err
}

// countPreloaded counts the records that were written ahead, of Nodes that are not listed any more too.
func (s *Sources) countPreloaded() (count int) {
	for _, name := range s.Records.NodeNames() {
		if s.Controller.Tracks(name) {
			continue
		}
		if entry, err := s.Records.Get(name); err == nil && entry.Record.Preloaded() {
			count++
		}
	}
	return count
}

// preloadOf returns the record to write ahead for a Node; due is false if there is nothing to write. The record of a Node that was ever observed
// stays as it is.
func (s *Sources) preloadOf(p policy.Policy, name string) (next record.Record, version string, due bool) {
	if s.Controller.Tracks(name) {
		return record.Record{}, "", false
	}
	entry, err := s.Records.Get(name)
	switch {
	case err == nil && !entry.Record.Preloaded(), err != nil && !errors.Is(err, store.ErrNotFound):
		return record.Record{}, "", false
	case err == nil:
		version = entry.Version
	}
	machine := record.Machine{SystemUUID: s.preloadMachine(p, name)}
	if version == "" && p.Follows() {
		if records, err := s.Records.ListByMachine(machine); err != nil || len(records) > 0 {
			return record.Record{}, "", false // the machine had another name, and what it had there follows
		}
	}
	facts := classify.Facts{Name: name, Uninitialized: true, Inventory: s.facts(p, name, machine.SystemUUID, nil)}
	next = record.Record{Node: name, Cluster: s.ClusterUID(), Machine: machine, DeletedAt: truncateToSecond(s.Now()), RuleLabels: fromInventory(p, facts, s.Now())}
	if version == "" {
		return next, "", machine.SystemUUID != "" && len(next.RuleLabels) > 0
	}
	old := entry.Record
	fresh := p.Retention() == 0 || s.Now().Sub(old.DeletedAt) < p.Retention()/preloadRefreshDivisor
	if len(next.RuleLabels) == 0 || machine.SystemUUID == "" || old.Machine == machine && record.SameRuleLabels(old.RuleLabels, next.RuleLabels) && fresh {
		return record.Record{}, "", false
	}
	return next, version, true
}

// fromInventory returns the labels that rules make of a Node when only its name and the inventories' facts are known. Labels that need no inventory
// are left out.
func fromInventory(p policy.Policy, facts classify.Facts, now time.Time) (ruleLabels map[string]record.RuleLabel) {
	result := p.Classify(facts, nil, now)
	known := p.LabelRules().FromInventory(result)
	maps.DeleteFunc(result.Labels, func(key string, _ record.RuleLabel) bool { return !slices.Contains(known, key) })
	if len(result.Labels) == 0 {
		return nil
	}
	return result.Labels
}

// preloadNames returns the names of the Nodes that sources with preload list with a machine, by source and name.
func (s *Sources) preloadNames(p policy.Policy) (names []string) {
	for _, source := range s.current(p, nil) {
		if !source.preload {
			continue
		}
		for _, name := range source.snapshot.Names() {
			if source.snapshot.SystemUUID(name) != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// preloadMachine returns the systemUUID that sources with preload list for a Node; empty: none, or they contradict each other.
func (s *Sources) preloadMachine(p policy.Policy, name string) (systemUUID string) {
	for _, source := range s.current(p, nil) {
		switch uuid := source.snapshot.SystemUUID(name); {
		case !source.preload || uuid == "" || uuid == systemUUID:
		case systemUUID != "":
			return ""
		default:
			systemUUID = uuid
		}
	}
	return systemUUID
}
