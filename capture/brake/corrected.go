package brake

import (
	"encoding/json"
	"time"

	"nodekeep.dev/nodekeep/store"
)

// Corrections are counted over an hour. Those of Nodes that registered within NewNodePeriod do not count: a webhook with a stale cache may have restored
// many at once from older records.
const (
	Window              = time.Hour
	NewNodePeriod       = 10 * time.Minute
	MaxCorrectedDivisor = 10 // of all Nodes, the part that may be corrected in that time: one in ten
)

// correctedCounts counts the Nodes on which capture removed or reverted items, by the minute (Unix time).
type correctedCounts map[int64]int

// parseCounts reads the count of the hour before a time. For what nodekeep has not written, ok is false and the count is empty.
func parseCounts(text string, now time.Time) (recent correctedCounts, ok bool) {
	var count correctedCounts
	recent = correctedCounts{}
	if text != "" && json.Unmarshal([]byte(text), &count) != nil {
		return recent, false
	}
	for minute, nodes := range count {
		if began := time.Unix(minute*60, 0); now.Sub(began) < Window && !began.After(now) && nodes > 0 {
			recent[minute] = nodes
		}
	}
	return recent, true
}

// nodes returns how many Nodes were corrected.
func (c correctedCounts) nodes() (total int) {
	for _, nodes := range c {
		total += nodes
	}
	return total
}

// encodeWithOneMore returns the count with one more Node.
func (c correctedCounts) encodeWithOneMore(now time.Time) string {
	c[now.Unix()/60]++
	text, err := json.Marshal(c)
	if err != nil {
		panic("marshal a count: " + err.Error()) // cannot happen: numbers
	}
	return string(text)
}

// mayCorrect reports whether one more of all live Nodes may be corrected, after those of the last hour.
func (c correctedCounts) mayCorrect(total int) bool {
	return c.nodes() < max(1, total/MaxCorrectedDivisor)
}

// acceptedWithinHour reports whether an operator has accepted corrections of any number of Nodes in the hour before.
func acceptedWithinHour(text string, now time.Time) bool {
	accepted, err := time.Parse(time.RFC3339, text)
	return err == nil && !accepted.After(now.Add(time.Minute)) && now.Sub(accepted) < Window
}

// judge reports whether one more of all live Nodes may be corrected, and the count so far. It goes by the ConfigMap with the state
// of capture. The count is not known where something else than nodekeep has written it.
func judge(state map[string]string, live int, now time.Time) (count correctedCounts, known, allowed bool) {
	accepted := acceptedWithinHour(state[store.CorrectionsAccepted], now)
	count, known = parseCounts(state[store.Corrected], now)
	if !known && !accepted {
		count = correctedCounts{now.Unix() / 60: live} // as if all live Nodes had been corrected now, so that no more are for an hour
	}
	return count, known, accepted || count.mayCorrect(live)
}

// CorrectedNodes returns how many Nodes were corrected in the hour before, by the ConfigMap with the state of capture.
func CorrectedNodes(state map[string]string, now time.Time) int {
	count, _ := parseCounts(state[store.Corrected], now)
	return count.nodes()
}
