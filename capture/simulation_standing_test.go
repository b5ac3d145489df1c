//go:build oldcore

package capture

// checkStanding checks what the metrics say of the Nodes against a walk over them, now that all is quiet.
func (c *simCapture) checkStanding() {
	var live, current, gated int
	s := c.controller.sightings
	for name, of := range s.byName {
		if of.live == nil {
			continue
		}
		live++
		if of.backlog == nil {
			current++
		} else if c.leads() {
			c.fail("process %d leads, all is quiet, and the record of %s is not current", c.id, name)
		}
		if c.controller.gated(of.live.taints) {
			gated++
		}
	}
	if nLive, nCurrent, nGated := s.counts(); nLive != live || nCurrent != current || nGated != gated {
		c.fail("process %d counts %d Nodes, %d current, %d gated; there are %d, %d, %d", c.id, nLive, nCurrent, nGated, live, current, gated)
	}
}
