package capture

import (
	"sync"
	"time"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// migrationsInterval is how often the leader counts how far migrations are, at most.
const migrationsInterval = time.Minute

// migrations counts Nodes, and records of Nodes that do not exist, by how far the migrations of their labels are. A Node counts once for each
// migration.
type migrations struct {
	mu      sync.Mutex
	counted time.Time
	states  map[policy.MigrationState]int
}

// in is how many Nodes are in a state.
func (m *migrations) in(state policy.MigrationState) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[state]
}

// due reports whether it is time to count again.
func (m *migrations) due(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counted.IsZero() || now.Sub(m.counted) >= migrationsInterval
}

func (m *migrations) set(states map[policy.MigrationState]int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states, m.counted = states, now
}

// countMigrations looks at each Node and record in memory.
func (c *Controller) countMigrations() {
	now := c.Now()
	if !c.migrations.due(now) {
		return
	}
	p := c.Policy()
	states := map[policy.MigrationState]int{}
	if len(p.Migrations()) > 0 && c.leading.Load() {
		for _, name := range c.Records.Nodes() {
			if _, live := c.observations.look(name); live == nil {
				entry, err := c.Records.Get(name)
				for _, m := range p.Migrations() {
					if err == nil {
						states[m.StateAway(entry.Record)]++
					}
				}
			}
		}
		for _, name := range c.observations.names() {
			_, live := c.observations.look(name)
			if live == nil || live.Fault != nil {
				continue
			}
			var r record.Record
			if entry, err := c.Records.Get(name); err == nil {
				r = entry.Record
			}
			metadata := live.Metadata(r, p, c.Guard.InForce())
			for _, m := range p.Migrations() {
				states[m.StateOn(p, metadata)]++
			}
		}
	}
	c.migrations.set(states, now)
}
