package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/store"
)

// remains asserts that a read from memory goes on showing the value in the record of worker-1.
func (c *cluster) remains(value string) {
	c.t.Helper()
	assert.Never(c.t, func() bool {
		entry, err := c.Get("worker-1")
		return err != nil || entry.Record.Items()["dedicated"] != value
	}, 100*time.Millisecond, time.Millisecond)
}

func TestItsOwnWritesAreSeenWhileTheWatchIsLate(t *testing.T) {
	c := newCluster(t)
	release := c.api.holdWatches(t)
	entry := c.put("worker-1", "ci", "")
	c.remains("ci")
	c.put("worker-1", "gpu", entry.Version)
	c.remains("gpu")
	release()
	c.remains("gpu") // the watch brings "ci" first, and it is no news
}

func TestAnOlderEventDoesNotTakeItsOwnWriteBack(t *testing.T) {
	c := newCluster(t)
	release := c.api.holdWatches(t)
	entry := c.put("worker-1", "ci", "")
	c.put("worker-1", "gpu", entry.Version)
	c.api.loseEventsAfter(1)
	release()
	require.Eventually(t, func() bool { return len(c.NodeNames()) == 1 }, patience, time.Millisecond, "the watch has brought the first write")
	c.remains("gpu")
}

func TestAnAnswerThatIsLateIsNoNews(t *testing.T) {
	c := newCluster(t)
	// The answer to the create is still on its way when another client has changed the record and the watch has said so.
	c.client.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		handled, answer, err := clienttesting.ObjectReaction(c.api)(action)
		c.Tamper("worker-1", []byte(`{"version": 1, "node": "worker-1", "labels": {"dedicated": "theirs"}}`))
		c.shows("worker-1", "theirs")
		return handled, answer, err
	})
	c.put("worker-1", "ci", "")
	c.remains("theirs")
}

func TestAnAnswerThatComesAfterTheRemovalOfTheRecordIsNoNews(t *testing.T) {
	c := newCluster(t)
	c.client.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		handled, answer, err := clienttesting.ObjectReaction(c.api)(action)
		require.Eventually(t, func() bool { return len(c.NodeNames()) == 1 }, patience, time.Millisecond)
		c.Remove("worker-1")
		require.Eventually(t, func() bool { return c.Totals().Bytes == 0 && len(c.NodeNames()) == 0 }, patience, time.Millisecond)
		return handled, answer, err
	})
	c.put("worker-1", "ci", "")
	c.staysGone()
}

func TestANewerWriteOfAnotherClientWinsOverItsOwn(t *testing.T) {
	c := newCluster(t)
	release := c.api.holdWatches(t)
	c.put("worker-1", "ci", "")
	c.Tamper("worker-1", []byte(`{"version": 1, "node": "worker-1", "labels": {"dedicated": "theirs"}}`))
	c.remains("ci")
	release()
	c.shows("worker-1", "theirs")
	c.remains("theirs")
}

func TestARemovalWinsOverItsOwnWrite(t *testing.T) {
	c := newCluster(t)
	release := c.api.holdWatches(t)
	c.put("worker-1", "ci", "")
	c.Remove("worker-1")
	c.remains("ci")
	release()
	c.answers("worker-1", store.ErrNotFound)
}

func TestAReadFromTheAPIServerForgetsAWriteOfADeletedRecord(t *testing.T) {
	c := newCluster(t)
	c.api.holdWatches(t)
	c.put("worker-1", "ci", "")
	c.Remove("worker-1")
	_, err := c.GetFromAPI(t.Context(), "worker-1")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = c.Get("worker-1")
	assert.ErrorIs(t, err, store.ErrNotFound, "at once, though the watch has not said so")
}

func TestWhatABrokenWatchMissedIsFoundByTheNextList(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-2", "worker-2"))
	c.put("worker-1", "ci", "")
	var changed nodes
	require.NoError(t, c.OnChange(changed.add, func(string) {}))
	changed.awaits(t, "worker-1", "worker-2")
	c.api.loseEventsAfter(0)
	c.Remove("worker-1")
	c.Tamper("worker-2", []byte("{"))
	c.Tamper("worker-3", []byte(`{"version": 1, "node": "worker-3", "labels": {"dedicated": "new"}}`))
	c.remains("ci")
	c.api.breakWatches()
	c.answers("worker-1", store.ErrNotFound)
	c.answers("worker-2", store.ErrUnreadable)
	c.shows("worker-3", "new")
	changed.awaits(t, "worker-1", "worker-2", "worker-3")
}

func TestItsOwnRemovalIsSeenWhileTheWatchIsLate(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-1", "worker-1"))
	release := c.api.holdWatches(t)
	entry, err := c.Get("worker-1")
	require.NoError(t, err)
	entry = c.put("worker-1", "gpu", entry.Version)
	require.NoError(t, c.Delete(t.Context(), "worker-1", entry.Version))
	c.staysGone()
	_, err = c.GetFromAPI(t.Context(), "worker-1")
	require.ErrorIs(t, err, store.ErrNotFound)
	c.staysGone() // its deletion is no news either
	release()
	c.staysGone() // the watch brings "gpu" first
}

func TestARecordThatAnotherClientMakesAgainWinsOverItsOwnRemoval(t *testing.T) {
	c := newCluster(t)
	entry := c.put("worker-1", "ci", "")
	release := c.api.holdWatches(t)
	require.NoError(t, c.Delete(t.Context(), "worker-1", entry.Version))
	c.Tamper("worker-1", []byte(`{"version": 1, "node": "worker-1", "labels": {"dedicated": "theirs"}}`))
	c.staysGone()
	release()
	c.shows("worker-1", "theirs")
	c.remains("theirs")
}

func TestARecordThatItMakesAgainWinsOverItsOwnRemoval(t *testing.T) {
	c := newCluster(t)
	release := c.api.holdWatches(t)
	entry := c.put("worker-1", "ci", "")
	require.NoError(t, c.Delete(t.Context(), "worker-1", entry.Version))
	c.put("worker-1", "gpu", "")
	c.remains("gpu")
	release()
	c.remains("gpu")
}

func TestARemovalWhoseEventIsMissedIsForgottenWithTheNextList(t *testing.T) {
	c := newCluster(t, configMapOf("node.worker-1", "worker-1"))
	entry, err := c.Get("worker-1")
	require.NoError(t, err)
	c.api.loseEventsAfter(0)
	require.NoError(t, c.Delete(t.Context(), "worker-1", entry.Version))
	c.staysGone()
	c.api.breakWatches()
	require.Eventually(t, func() bool { return len(c.NodeNames()) == 0 }, patience, time.Millisecond, "the list has shown that it is deleted")
	c.staysGone()
	c.Tamper("worker-1", []byte(`{"version": 1, "node": "worker-1", "labels": {"dedicated": "theirs"}}`))
	c.shows("worker-1", "theirs")
}

// staysGone asserts that a read from memory goes on showing no record of worker-1.
func (c *cluster) staysGone() {
	c.t.Helper()
	assert.Never(c.t, func() bool {
		_, err := c.Get("worker-1")
		return !errors.Is(err, store.ErrNotFound)
	}, 100*time.Millisecond, time.Millisecond)
}
