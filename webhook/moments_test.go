package webhook

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheMomentOfANodeObjectIsWrittenOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoments()
		assert.True(t, m.take("a"))
		assert.False(t, m.take("a"))
		assert.True(t, m.take("b"), "each object has its own")
		time.Sleep(momentEvery - time.Second)
		assert.False(t, m.take("a"))
		time.Sleep(time.Second)
		assert.True(t, m.take("a"))
	})
}

func TestMomentsAreBoundedInAllAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, written := newMoments(), 0
		for n := range 3 * momentsAtOnce {
			if m.take(types.UID(fmt.Sprint(n))) {
				written++
			}
		}
		assert.Equal(t, momentsAtOnce, written)
		assert.Equal(t, momentsAtOnce, m.written.Len(), "what was not written takes no memory")
		time.Sleep(momentEvery)
		m.take("later")
		assert.Equal(t, 1, m.written.Len())
	})
}
