package capture

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/store"
)

// ends has a replica record what waits, as it does on SIGTERM.
func (r *replica) ends(ctx context.Context) {
	r.shuttingDown.Store(true)
	r.drain(ctx)
}

func TestACaptureThatEndsFirstRecordsWhatItHasObserved(t *testing.T) {
	recorded := func() *cluster {
		return newCluster(t, "", numbered(7), remembered("a", 10, labels{"k": "v"}), node("a", "10", labels{"k": "v"}))
	}
	t.Run("an edit and the end of its Node, in the queue", func(t *testing.T) {
		w := recorded()
		r := w.leads()
		w.label("edit", "yes")
		w.delete()
		r.ends(t.Context())
		assert.Equal(t, labels{"k": "v", "edit": "yes"}, w.record().Items())
		assert.False(t, w.record().DeletedAt.IsZero())
		assert.Empty(t, r.observations.waiting())
	})
	t.Run("an edit that waits, because the Node changes all the time", func(t *testing.T) {
		w := recorded()
		r := w.leads()
		for _, value := range []string{"1", "2", "3", "4"} {
			w.label("edit", value)
			require.Empty(t, r.works())
		}
		require.Equal(t, "3", w.record().Items()["edit"], "the fourth waits")
		r.ends(t.Context())
		assert.Equal(t, "4", w.record().Items()["edit"])
	})
	t.Run("also where another replica leads and does nothing", func(t *testing.T) {
		w := recorded()
		r := w.replica()
		require.Empty(t, r.works())
		w.label("edit", "yes")
		require.Empty(t, r.works())
		require.NotContains(t, w.record().Items(), "edit")
		r.ends(t.Context())
		assert.Equal(t, "yes", w.record().Items()["edit"])
	})
	t.Run("and changes no Node", func(t *testing.T) {
		w := newCluster(t, "", remembered("before", 5, labels{"k": "v"}), node("a", "10", labels{"edit": "yes"}, owned("kubectl-label", "edit"), gated))
		r := w.leader()
		r.ends(t.Context())
		assert.Equal(t, "yes", w.record().Items()["edit"])
		for _, write := range r.wrote() {
			assert.NotContains(t, write, "patch")
		}
	})
	t.Run("and tries again what fails", func(t *testing.T) {
		w := recorded()
		r := w.leads()
		w.label("edit", "yes")
		w.delete()
		failures := atomic.Int32{}
		r.sees = func(_ string, _ bool, _ *store.Entry, err error) error {
			if failures.Add(1) <= 3 {
				return errors.New("the API server restarts")
			}
			return err
		}
		r.ends(t.Context())
		assert.Equal(t, "yes", w.record().Items()["edit"])
	})
	t.Run("until its time is over", func(t *testing.T) {
		w := recorded()
		r := w.leads()
		w.label("edit", "yes")
		w.delete()
		r.refuses = errors.New("no API server")
		ctx, cancel := context.WithTimeout(t.Context(), 2*drainRetryInterval)
		defer cancel()
		r.ends(ctx)
		assert.Equal(t, []string{"n1"}, r.observations.waiting())
	})
}

func TestAnEditThatTheLastStateOfADeletedNodeShowsDoesNotWaitForTheLeader(t *testing.T) {
	w := newCluster(t, "", numbered(7), remembered("a", 10, labels{"k": "v"}), node("a", "10", labels{"k": "v"}))
	standby := w.replica()
	require.Empty(t, standby.works())
	w.label("edit", "yes")
	require.Empty(t, standby.works())
	assert.Empty(t, standby.wrote(), "while the Node lives, the leader may be on its way")
	w.delete()
	require.Empty(t, standby.works())
	assert.Equal(t, labels{"k": "v", "edit": "yes"}, w.record().Items())
	standby.wrote()

	w.register(node("b", "200", labels{"k": "v", "edit": "yes"}))
	require.Empty(t, standby.works())
	w.passes(pace.StandbyDelay)
	standby.looks()
	require.Contains(t, standby.wrote(), "put n1", "it takes over")
	w.passes(pace.ActingPeriod)
	w.delete()
	require.Empty(t, standby.works())
	assert.Empty(t, standby.wrote(), "a deletion without an edit is the leader's to note")
}
