package oracle

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheOracleExcusesNothingThatWasObserved(t *testing.T) {
	item := Item{Value: 1, Owner: Client}
	log := []State{{Object: 1, Edited: true, Item: item}, {Object: 1, Item: item}, {Object: 2}}
	for name, tt := range map[string]struct {
		observed []int
		value    Value
		excuse   Excuse
	}{
		"the edit was observed":     {[]int{0}, 1, Promised},
		"the end of the object was": {[]int{1}, 1, Promised},
		"only the next object was":  {[]int{2}, NoValue, Unobserved},
		"nothing was":               {nil, NoValue, Unobserved},
		"both objects were":         {[]int{1, 2}, 1, Promised},
	} {
		t.Run(name, func(t *testing.T) {
			got := Question{Log: log, Seen: func(i int) Observation {
				if slices.Contains(tt.observed, i) {
					return Observed
				}
				return NotObserved
			}}.Wanted()
			assert.Equal(t, tt.value, got.Value)
			assert.Equal(t, tt.excuse, got.Excuse)
			assert.False(t, got.Allows(2))
		})
	}
}

func TestTheOracleExcusesWhatOnlyAStampShowsIfItProvesNothing(t *testing.T) {
	older := State{Object: 1, Edited: true, Item: Item{Value: 1, Owner: NoOwner}}
	edit := State{Object: 2, Edited: true, Item: Item{Value: 2, Owner: NoOwner}}
	removal := State{Object: 2, Edited: true}
	restored := State{Object: 2, Item: Item{Value: 1, Owner: NoOwner, Given: 1, Start: 3}}
	for name, tt := range map[string]struct {
		careful    bool
		unobserved int // index of a state
		allows     []Value
	}{
		"the stamp proves the removal":                {false, 2, []Value{NoValue}},
		"it proves nothing":                           {true, 2, []Value{NoValue, 1, 2}},
		"it proves nothing, the removal was observed": {true, -1, []Value{NoValue}},
	} {
		t.Run(name, func(t *testing.T) {
			a := Question{
				Log: []State{older, edit, removal, restored}, Taint: true, Careful: tt.careful, Order: func(i int) int { return i },
				Seen: func(i int) Observation {
					if i == tt.unobserved {
						return NotObserved
					}
					return Observed
				},
			}.Wanted()
			for _, value := range []Value{NoValue, 1, 2, 3} {
				assert.Equal(t, slices.Contains(tt.allows, value), a.Allows(value), value)
			}
		})
	}
}

func TestTheOracleKnowsThatALabelWasSetBackOnlyByWhatWasObservedBefore(t *testing.T) {
	given := Item{Value: 1, Owner: NoOwner, Given: 1}
	edit := State{Object: 1, Edited: true, Item: Item{Value: 2, Owner: Client, Given: 1}}
	kubelets := State{Object: 1, Item: Item{Value: 1, Owner: Kubelet, Given: 1}}
	for name, observed := range map[string]bool{"the edit was observed": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			a := Question{Log: []State{{Object: 1, Item: given}, edit, kubelets, {Object: 1, Edited: true, Item: given}}, Settled: 3, Seen: func(i int) Observation {
				if i == 1 && !observed {
					return NotObserved
				}
				return Observed
			}}.Wanted()
			assert.Equal(t, observed, a.Allows(1))
			assert.Equal(t, !observed, a.Allows(3))
		})
	}
}

func TestTheOracleExcusesAStampObservedAfterANewerStateThatLostIt(t *testing.T) {
	for name, tt := range map[string]struct {
		late   bool
		excuse Excuse
	}{"late": {true, Unstamped}, "in order": {false, Promised}} {
		t.Run(name, func(t *testing.T) {
			listed := State{Object: 1, Item: Item{Given: 2}}
			a := Question{
				Log: []State{listed, {Object: 1, Bare: true}}, Taint: true, Seen: func(int) Observation { return Observed },
				Order: func(i int) int {
					if tt.late {
						return -i
					}
					return i
				},
			}.Wanted()
			assert.Equal(t, tt.excuse, a.Excuse)
			assert.Equal(t, tt.late, a.Allows(2))
			assert.False(t, a.Allows(1))
		})
	}
}
