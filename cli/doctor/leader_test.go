package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestALeaseShowsForHowLongNoCaptureHasLed(t *testing.T) {
	fn := func(age time.Duration) Leadership { return lease("worker-1_a", now.Add(-age)) }
	assert.Zero(t, fn(2*time.Second).LeaderlessFor())
	assert.Equal(t, 20*time.Second, fn(20*time.Second).LeaderlessFor(), "it has run out")
	assert.Equal(t, time.Second, fn(-time.Hour).LeaderlessFor(), "the clock of the leader was ahead, and it does not renew the Lease")
	renewed := fn(time.Hour)
	renewed.Renewed = true
	assert.Zero(t, renewed.LeaderlessFor(), "it was renewed while it was watched")
}

func TestALeaseIsDoubtfulUntilItIsSeenToBeRenewed(t *testing.T) {
	assert.False(t, lease("a", now.Add(-14*time.Second)).MayBeStale())
	assert.False(t, lease("a", now.Add(9*time.Second)).MayBeStale())
	assert.True(t, lease("a", now.Add(-16*time.Second)).MayBeStale())
	assert.True(t, lease("a", now.Add(11*time.Second)).MayBeStale())
	assert.True(t, lease("", now).MayBeStale())
}

func TestALaterLookShowsWhetherAReplicaRenewsTheLease(t *testing.T) {
	first, later := lease("a", now.Add(-time.Hour)), now.Add(2*time.Second)
	assert.False(t, first.Update(first.Lease, later).Renewed)
	assert.True(t, first.Update(lease("a", later).Lease, later).Renewed)
	assert.True(t, first.Update(lease("b", later).Lease, later).Renewed)
	assert.False(t, first.Update(lease("", later).Lease, later).Renewed, "a replica that leaves renews it once more")
	assert.Equal(t, later, first.Update(first.Lease, later).Observed)
}
