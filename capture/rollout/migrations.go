package rollout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/policy"
)

// countInterval is how often the leader counts how far migrations are, at most.
const countInterval = time.Minute

// refreshMigrationCounts has migrations counted, if it is time to count again.
func (r *Rollout) refreshMigrationCounts() {
	p, now := r.Policy(), r.Now()
	if now.Sub(r.countedAt) < countInterval {
		return
	}
	r.countedAt = now
	states := map[policy.MigrationState]int{}
	if len(p.Migrations()) > 0 && r.Controller.Leading() {
		states = r.CountMigrations(p)
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

// HeldNodes returns on how many Nodes held rules would remove or change labels; 0 while no rules wait for an operator.
func (r *Rollout) HeldNodes() int {
	if held, known := r.HeldRules(); known && held != nil {
		return held.Nodes
	}
	return 0
}

// Collectors returns the series, which are read at each scrape.
func (r *Rollout) Collectors() (collectors []prometheus.Collector) {
	for _, state := range policy.MigrationStates() {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "nodekeep_migration_nodes", Help: "Nodes, and records of Nodes that do not exist, by the state of their label's migration; counted by the leader.",
			ConstLabels: prometheus.Labels{"state": string(state)},
		}, func() float64 { return float64(r.migratingIn(state)) }))
	}
	return collectors
}
