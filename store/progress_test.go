package store_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/store"
)

func TestProgressMovesWithWhatTheWatchBrings(t *testing.T) {
	tests := map[string]func(c *cluster){
		"a record is created":              func(c *cluster) { c.put("worker-2", "ci", "") },
		"a record is changed":              func(c *cluster) { c.Tamper("worker-1", []byte("{")) },
		"a record is removed":              func(c *cluster) { c.Remove("worker-1") },
		"a bookmark says nothing happened": func(c *cluster) { c.api.bookmark() },
	}
	for name, happen := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			c := watching(t)
			prev := c.Progress()
			assert.WithinRange(t, prev, start, time.Now())
			release := c.api.holdWatches(t)
			happen(c)
			assert.Never(t, func() bool { return c.Progress() != prev }, 50*time.Millisecond, time.Millisecond, "nobody has received it yet")
			release()
			assert.Eventually(t, func() bool { return c.Progress().After(prev) }, patience, time.Millisecond)
		})
	}
}

func TestAWatchThatIsAcceptedIsNoProgressAndABookmarkOnItIs(t *testing.T) {
	c := watching(t)
	prev := c.Progress()
	c.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("a list is not needed")
	})
	c.api.endWatches()
	require.Eventually(t, c.api.watched, patience, time.Millisecond)
	// The client may not know yet that its watch is open: until then there is no progress at all.
	require.Eventually(t, func() bool { return c.Progress().Equal(prev) }, patience, time.Millisecond, "it may bring nothing, for ever")
	c.api.bookmark()
	assert.Eventually(t, func() bool { return c.Progress().After(prev) }, patience, time.Millisecond)
}

func TestReadingAndWritingIsNoProgress(t *testing.T) {
	c := watching(t)
	prev := c.Progress()
	c.api.loseEventsAfter(0)
	c.put("worker-2", "ci", "")
	_, err := c.GetFromAPI(t.Context(), "worker-1")
	require.NoError(t, err)
	assert.Never(t, func() bool { return c.Progress() != prev }, 50*time.Millisecond, time.Millisecond, "the watch may be dead all the same")
}

func TestAnAPIServerThatRefusesIsNoProgress(t *testing.T) {
	client := newAPI().client()
	asked := make(chan struct{}, 100)
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- struct{}{}
		return true, nil, errors.New("not today")
	})
	records, err := store.NewConfigMaps(client, namespace, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	go records.Run(t.Context())
	for range 2 { // so that the first answer has been looked at
		<-asked
	}
	assert.False(t, records.Synced())
	assert.Zero(t, records.Progress())
}

// watching returns a cluster with a record of worker-1 that came by the watch, which has nothing more to bring.
func watching(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.Tamper("worker-1", []byte(configMapOf("node.worker-1", "worker-1").Data[store.DataKey]))
	c.shows("worker-1", "ci")
	return c
}
