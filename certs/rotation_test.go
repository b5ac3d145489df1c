package certs

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// TestYearsWithoutAGap lives through three years with three replicas that look at the same moments, of which some miss some looks and
// every one loses the API server for a while. After each step, what every replica serves must verify with the bundles that the
// configurations held before the step: an API server may not have seen the newer ones yet.
func TestYearsWithoutAGap(t *testing.T) {
	const span, seed = 3 * 365 * day, 0
	random := rand.New(rand.NewPCG(seed, 0))
	c, clock := installed(t), testingclock.NewFakeClock(birth)
	var replicas []*SelfSigned
	offline := make([]bool, 3)
	for i := range offline {
		replicas = append(replicas, c.replica(clock, func(clienttesting.Action) error {
			if offline[i] {
				return errors.New("connection refused")
			}
			return nil
		}))
		require.NoError(t, replicas[i].sync(t.Context()))
	}
	require.Equal(t, 3, c.writes)

	cas, leaves, steps := map[string]bool{}, map[string]bool{}, 0
	for calm := 0; clock.Since(birth) < span; steps++ {
		prev, secret := c.bundles(), c.secret().ResourceVersion
		var all sync.WaitGroup
		for i, s := range replicas {
			offline[i] = random.IntN(20) == 0
			if random.IntN(4) == 0 {
				continue // it misses this look
			}
			all.Go(func() { assert.Equal(t, offline[i], s.sync(t.Context()) != nil) })
		}
		all.Wait()
		for _, s := range replicas {
			for _, bundle := range distinct(prev, c.bundles()) {
				requireVerifies(t, s, bundle, clock.Now())
			}
			leaves[s.serving.Load().Leaf.SerialNumber.String()] = true
		}
		cas[c.state().ca.cert.SerialNumber.String()] = true
		assert.LessOrEqual(t, len(c.state().authorities()), 3)

		// By the minute while something is going on, else by days.
		if calm++; c.secret().ResourceVersion != secret {
			calm = 0
		}
		if calm < 20 {
			clock.Step(time.Minute)
		} else {
			clock.Step(day + time.Duration(random.IntN(int(day))))
		}
	}
	t.Logf("%d steps, %d writes, %d CAs, %d serving certificates", steps, c.writes, len(cas), len(leaves))
	assert.Len(t, cas, 3, "one every sixteen months")
	assert.InDelta(t, 3*365/60, len(leaves), 3, "one every sixty days, and one with each CA")
	assert.LessOrEqual(t, c.writes, 3+len(leaves)+len(cas)*2*5, "no write without need")
}

// distinct returns the bundles of all lists, each once.
func distinct(lists ...[][]byte) [][]byte {
	all := slices.Concat(lists...)
	slices.SortFunc(all, bytes.Compare)
	return slices.CompactFunc(all, bytes.Equal)
}

func TestShortLivesRotateToo(t *testing.T) {
	c, clock := installed(t), testingclock.NewFakeClock(birth)
	s := NewSelfSigned(c.client(nil), Options{
		CALife: 10 * time.Minute, LeafLife: 30 * time.Second, Grace: time.Minute, Interval: time.Second,
		Clock: clock, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, s.sync(t.Context()))
	cas, leaves := map[string]bool{}, map[string]bool{}
	for clock.Since(birth) < 20*time.Minute {
		prev := c.bundles()
		require.NoError(t, s.sync(t.Context()))
		for _, bundle := range distinct(prev) {
			requireVerifies(t, s, bundle, clock.Now())
		}
		cas[c.state().ca.cert.SerialNumber.String()] = true
		leaves[s.serving.Load().Leaf.SerialNumber.String()] = true
		clock.Step(time.Second)
	}
	assert.InDelta(t, 3, len(cas), 1, "two thirds of ten minutes, and a minute of grace")
	assert.InDelta(t, 60, len(leaves), 5, "every twenty seconds")
}
