package capture

import (
	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/inventory/fetch"
)

// inventorySeries are the series of the sources that the policy has. There are at most as many as these.
func (c *Controller) inventorySeries() series {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"source"}, labels...), nil)
	}
	age := desc("nodekeep_inventory_age_seconds", "How long ago the source last said what is in force; 0 before it was read.")
	nodes := desc("nodekeep_inventory_nodes", "Nodes that the snapshot in force lists.")
	held := desc("nodekeep_inventory_held_nodes", "Nodes that a held snapshot would no longer list, or whose labels it would change. 0 while none waits for an operator.")
	stale := desc("nodekeep_inventory_stale", "1 while the source was not read for longer than staleAfter, or not at all. Rules do not know its facts, and labels stay as they are.")
	contradicts := desc("nodekeep_inventory_contradicted_nodes", "Nodes whose systemUUID is another one than the snapshot lists: rules do not know its facts of them.")
	failed := desc("nodekeep_inventory_failures_total", "Reads of the source that failed, by reason.", "reason")

	return series{[]*prometheus.Desc{age, nodes, held, stale, contradicts, failed}, func(to chan<- prometheus.Metric) {
		now, all := c.Now(), c.inventories
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, source := range c.Policy().Inventory() {
			state := all.sources[source.Name]
			if state == nil {
				state = &inventoryState{source: source} // this process does not read it
			}
			gauge := func(desc *prometheus.Desc, value float64) {
				to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, source.Name)
			}
			since := now
			if state.read {
				since = state.confirmed
			}
			gauge(age, now.Sub(since).Seconds())
			gauge(nodes, float64(state.inForce.Len()))
			gauge(held, float64(max(state.change.Lost, state.change.Altered)))
			gauge(stale, oneIf(state.stale(now)))
			gauge(contradicts, float64(state.differs))
			for _, reason := range fetch.Reasons() {
				to <- prometheus.MustNewConstMetric(failed, prometheus.CounterValue, float64(state.failures[reason]), source.Name, string(reason))
			}
		}
	}}
}
