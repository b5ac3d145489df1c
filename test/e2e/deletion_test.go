//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			heard(t, k, last)
			require.Empty(t, last.lacks(k.register(t)), "round %d: a label set at the moment of the deletion", round)
			w.expect(k.name, must{})
		}
	}
	labelDeleteRegister(10)
	without(t, captureName, func() { labelDeleteRegister(5) })
	whole(t, k.name, must{labels: map[string]string{domain + "moment": fmt.Sprint(round)}})
	w.sawNothingBare(t)
}

// heard waits until a dry-run registration brings all of that. The replica of the webhook that sees a registration may
// be another one than that which saw the deletion a few milliseconds earlier and wrote the record; a kubelet leaves it the time to
// receive it, as none registers so soon.
func heard(t *testing.T, k *kubelet, want must) {
	t.Helper()
	eventually(t, func() error {
		node, err := k.client.CoreV1().Nodes().Create(t.Context(), k.node(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if lacking := want.lacks(node); lacking != "" {
			return errors.New("not yet " + lacking)
		}
		return nil
	}, "a label set at the moment of the deletion must be known when node %s registers", k.name)
}
