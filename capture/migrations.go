package capture

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/policy"
)

// migrationsInterval is how often the leader counts how far migrations are, at most.
const migrationsInterval = time.Minute

// migrations counts Nodes, and records of Nodes that do not exist, by how far the migrations of their labels are. A Node counts once for each
// migration.
type migrations struct {
	counted time.Time // only the goroutine that counts uses it

	mu     sync.Mutex
	states map[policy.MigrationState]int
}

// in is how many Nodes are in a state.
func (m *migrations) in(state policy.MigrationState) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[state]
}

// countMigrations looks at each Node and record in memory, if it is time to count again.
func (c *Controller) countMigrations() {
	p, now := c.Policy(), c.Now()
	if now.Sub(c.migrations.counted) < migrationsInterval {
		return
	}
	c.migrations.counted = now
	states := map[policy.MigrationState]int{}
	if len(p.Migrations()) > 0 && c.leading.Load() {
		for name := range sets.New(c.observations.names()...).Insert(c.Records.Nodes()...) {
			c.countMigrationsOf(name, p, states)
		}
	}
	c.migrations.mu.Lock()
	defer c.migrations.mu.Unlock()
	c.migrations.states = states
}

func (c *Controller) countMigrationsOf(name string, p policy.Policy, states map[policy.MigrationState]int) {
	entry, err := c.Records.Get(name)
	_, live := c.observations.look(name)
	switch {
	case live == nil && err == nil:
		for _, m := range p.Migrations() {
			states[m.StateAway(entry.Record)]++
		}
	case live != nil && live.Fault == nil:
		metadata := live.Metadata(entry.Record, p, c.Guard.InForce())
		for _, m := range p.Migrations() {
			states[m.StateOn(p, metadata)]++
		}
	}
}
