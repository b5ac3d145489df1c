package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestALeaseShowsForHowLongNoCaptureHasLed(t *testing.T) {
	of := func(ago time.Duration) Leadership { return lease("worker-1_a", now.Add(-ago)) }
	assert.Zero(t, of(2*time.Second).Silent())
	assert.Equal(t, 20*time.Second, of(20*time.Second).Silent(), "it has run out")
	assert.Equal(t, time.Second, of(-time.Hour).Silent(), "the clock of the leader was ahead, and it does not renew the Lease")
	renewed := of(time.Hour)
	renewed.Renewed = true
	assert.Zero(t, renewed.Silent(), "it was renewed while it was watched")
}
