package capture

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestOneWorkerAtATimeReconcilesANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names turns
		release := names.take("n1")
		names.take("n2")()
		taken := false
		go func() {
			defer names.take("n1")()
			taken = true
		}()
		synctest.Wait()
		assert.False(t, taken)
		release()
		synctest.Wait()
		assert.True(t, taken)
		assert.Empty(t, names.taken)
	})
}
