package gc

import "time"

func (s *Sweeper) reportSwept(record candidate, outcome Outcome) {
	gone := record.gone.UTC().Format(time.RFC3339)
	switch outcome {
	case Collected:
		s.Logger.Info("record removed", "node", record.node, "goneSince", gone)
	case Rehearsed:
		s.Logger.Info("record would be removed", "node", record.node, "goneSince", gone)
	default:
		s.Logger.Info("record due for removal kept", "node", record.node, "goneSince", gone, "outcome", outcome)
	}
}

// reportSweep tells what a sweep came to, in one line.
func (s *Sweeper) reportSweep(found findings, outcomes map[Outcome]int, failure error) {
	counts := []any{
		"records", found.all, "gone", found.gone, "due", len(found.due), "removed", outcomes[Collected], "wouldBeRemoved", outcomes[Rehearsed],
		"kept", outcomes[Kept], "putBack", outcomes[PutBack],
	}
	if failure != nil {
		s.Logger.Warn("sweep of records ended by an error; the next one goes on", append(counts, "error", failure)...)
		return
	}
	s.Logger.Info("records swept", counts...)
}
