package oracle

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheOracleExcusesNothingThatWasObserved(t *testing.T) {
	one := Item{Value: 1, Owner: Client}
	log := []State{{Object: 1, Edited: true, Item: one}, {Object: 1, Item: one}, {Object: 2}}
	for name, tt := range map[string]struct {
		observed []int
		value    Value
		why      Excuse
	}{
		"the edit was observed":     {[]int{0}, 1, Promised},
		"the end of the object was": {[]int{1}, 1, Promised},
		"only the next object was":  {[]int{2}, None, Unobserved},
		"nothing was":               {nil, None, Unobserved},
		"both objects were":         {[]int{1, 2}, 1, Promised},
	} {
		t.Run(name, func(t *testing.T) {
			got := Question{Log: log, Seen: func(at int) Observation {
				if slices.Contains(tt.observed, at) {
					return Observed
				}
				return NotObserved
			}}.Wanted()
			assert.Equal(t, tt.value, got.Value)
			assert.Equal(t, tt.why, got.Why)
			assert.False(t, got.Allows(2))
		})
	}
}
