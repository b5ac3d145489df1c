//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func remembersTheLastMoment(t *testing.T) {
	w := watchNodes(t)
	k, _ := known(t, "deleted", ordinary())
	round := 0
	labelDeleteRegister := func(rounds int) {
		for range rounds {
			round++
			last := requirer{labels: map[string]string{domain + "moment": fmt.Sprint(round)}}
			installed.nodes.Label(t, k.name, map[string]any{domain + "moment": fmt.Sprint(round)})
			installed.nodes.DeleteNode(t, k.name)
			w.expect(k.name, last)
			received(t, k, last)
			require.Empty(t, last.lacks(k.register(t)), "round %d: a label set at the moment of the deletion", round)
			w.expect(k.name, requirer{})
		}
	}
	labelDeleteRegister(10)
	withoutDeployment(t, captureName, func() { labelDeleteRegister(5) })
	whole(t, k.name, requirer{labels: map[string]string{domain + "moment": fmt.Sprint(round)}})
	w.sawNothingBare(t)
}

// received waits until dry-run registrations bring all of that, and not the labels without. The record was written a few milliseconds ago. The
// replica of the webhook that reviews a registration may not have received it yet. A kubelet leaves it the time: none registers so soon.
func received(t *testing.T, k *kubelet, want requirer, excluded ...string) {
	t.Helper()
	k.dryRuns(t, "the webhook must have received the record", func(node *corev1.Node) error {
		if lacking := want.lacks(node); lacking != "" {
			return errors.New("not yet " + lacking)
		}
		for _, key := range excluded {
			if _, ok := node.Labels[key]; ok {
				return errors.New("still " + key)
			}
		}
		return nil
	})
}
