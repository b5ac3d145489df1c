package capture

import (
	"sync"
	"time"

	"nodekeep.dev/nodekeep/capture/fleet"
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
		states = fleet.Migrating(c.everyNode(), p, c.Guard.InForce())
	}
	c.migrations.mu.Lock()
	defer c.migrations.mu.Unlock()
	c.migrations.states = states
}
