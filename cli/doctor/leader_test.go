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

func TestALeaseIsDoubtfulUntilItIsSeenToBeRenewed(t *testing.T) {
	assert.False(t, lease("a", now.Add(-14*time.Second)).Doubtful())
	assert.False(t, lease("a", now.Add(9*time.Second)).Doubtful())
	assert.True(t, lease("a", now.Add(-16*time.Second)).Doubtful())
	assert.True(t, lease("a", now.Add(11*time.Second)).Doubtful())
	assert.True(t, lease("", now).Doubtful())
}

func TestALaterLookShowsWhetherAReplicaRenewsTheLease(t *testing.T) {
	first, later := lease("a", now.Add(-time.Hour)), now.Add(2*time.Second)
	assert.False(t, first.Again(first.Lease, later).Renewed)
	assert.True(t, first.Again(lease("a", later).Lease, later).Renewed)
	assert.True(t, first.Again(lease("b", later).Lease, later).Renewed)
	assert.False(t, first.Again(lease("", later).Lease, later).Renewed, "a replica that leaves renews it once more")
	assert.Equal(t, later, first.Again(first.Lease, later).At)
}
