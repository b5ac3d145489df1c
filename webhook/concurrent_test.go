package webhook_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
)

// Every restart of a kubelet sends the same CREATE again, thousands at once after an upgrade: each gets the same answer.
func TestTheSameReviewGetsTheSameAnswer(t *testing.T) {
	body := readGolden(t, reviewsDir, "protected-labels-wait-behind-the-gate").review
	h := newHook((&records{}).remember(t, map[string]string{
		"dedicated": "ci", "example.com/rack": "r7", "node-role.kubernetes.io/ci": "", "node-role.kubernetes.io/worker": "",
	}), policy.Default())
	first := h.send(body).Body.String()
	require.Contains(t, first, `"patch":`)

	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 25 {
				assert.Equal(t, first, h.send(body).Body.String())
			}
		})
	}
	callers.Wait()

	assert.Equal(t, 1+8*25, h.count(t, reviewsTotal, "deferred"))
	assert.Equal(t, 2*(1+8*25), h.count(t, itemsTotal, "label/restored"))
}
