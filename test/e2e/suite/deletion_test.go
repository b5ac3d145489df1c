//go:build e2e

package suite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func remembersTheLastMoment(t *testing.T) {
	w := watchNodes(t)
	k, _ := known(t, "deleted", ordinary())
	round := 0
	labelDeleteRegister := func(rounds int) {
		for range rounds {
			round++
			last := must{labels: map[string]string{domain + "moment": fmt.Sprint(round)}}
			label(t, k.name, map[string]any{domain + "moment": fmt.Sprint(round)})
			remove(t, k.name)
			w.expect(k.name, last)
			require.Empty(t, last.lacks(k.register(t)), "round %d: what was put on in the moment of the deletion", round)
			w.expect(k.name, must{})
		}
	}
	labelDeleteRegister(10)
	without(t, captureName, func() { labelDeleteRegister(5) })
	whole(t, k.name, must{labels: map[string]string{domain + "moment": fmt.Sprint(round)}})
	w.sawNothingBare(t)
}
