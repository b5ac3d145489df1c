package webhook

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheMomentOfANodeObjectIsWrittenOnceInAWhile(t *testing.T) {
	var m moments
	at := time.Now()
	assert.True(t, m.take("a", at))
	assert.False(t, m.take("a", at))
	assert.True(t, m.take("b", at), "each object has its own")
	assert.False(t, m.take("a", at.Add(momentEvery-time.Second)))
	assert.False(t, m.take("a", at.Add(momentEvery)), "at least that long, twice that at most")
	assert.True(t, m.take("a", at.Add(2*momentEvery)))
	assert.True(t, m.take("a", at.Add(10*momentEvery)))
}

func TestMomentsAreBoundedInAllAndForgotten(t *testing.T) {
	var m moments
	written, now := 0, time.Now()
	for n := range 3 * momentsAtOnce {
		if m.take(types.UID(fmt.Sprint(n)), now) {
			written++
		}
	}
	assert.Equal(t, momentsAtOnce, written)
	assert.Len(t, m.current, momentsAtOnce, "what was not written takes no memory")
	m.take("later", now.Add(3*momentEvery))
	assert.LessOrEqual(t, len(m.current)+len(m.last), 1)
}
