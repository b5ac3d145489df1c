package rollout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/policy"
)

// countInterval is how often the leader counts how far migrations are, at most.
const countInterval = time.Minute

// countMigrations has migrations counted, if it is time to count again.
func (r *Rollout) countMigrations() {
	p, now := r.Policy(), r.Now()
	if now.Sub(r.counted) < countInterval {
		return
	}
	r.counted = now
	states := map[policy.MigrationState]int{}
	if len(p.Migrations()) > 0 && r.Nodes.Leading() {
		states = r.Migrating(p)
	}
	r.migrating.Store(&states)
}

// migratingIn returns how many Nodes are in a state.
func (r *Rollout) migratingIn(state policy.MigrationState) int {
	if states := r.migrating.Load(); states != nil {
		return (*states)[state]
	}
	return 0
}

// Series are read at each scrape.
func (r *Rollout) Series() (all []prometheus.Collector) {
	gauge := func(read func() int, options prometheus.GaugeOpts) {
		all = append(all, prometheus.NewGaugeFunc(options, func() float64 { return float64(read()) }))
	}
	for _, state := range policy.MigrationStates() {
		gauge(func() int { return r.migratingIn(state) }, prometheus.GaugeOpts{
			Name: "nodekeep_migration_nodes", Help: "Nodes, and records of Nodes that do not exist, by the state of their label's migration; counted by the leader.",
			ConstLabels: prometheus.Labels{"state": string(state)},
		})
	}
	gauge(func() int { return len(r.Policy().Migrations()) }, prometheus.GaugeOpts{Name: "nodekeep_migrations_open", Help: "Migrations of labels in the policy."})
	gauge(func() int {
		if held, known := r.HeldRules(); known && held != nil {
			return held.Nodes
		}
		return 0
	}, prometheus.GaugeOpts{
		Name: "nodekeep_rules_held_nodes", Help: "Nodes on which held rules would remove or change labels; 0 while no rules wait for an operator.",
	})
	return all
}
