package removal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

func TestOfTwoControllersThatWriteTheLedgerAtOnceOneHasToReadAgain(t *testing.T) {
	client, _ := shipped(t)
	store, now := remove.NewStore(client, verify.Namespace), time.Now().UTC().Truncate(time.Second)
	entry := func(node string) verify.Removal {
		return verify.Removal{Node: node, UID: "uid-" + node, Kind: verify.RemoveNode, Profile: "gpu", Time: now}
	}
	first, err := store.Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, first.Ledger.Removals)
	second := first

	// Both make it, then both change it.
	first, err = store.Write(t.Context(), first, first.Ledger.Add(entry("a"), now))
	require.NoError(t, err)
	_, err = store.Write(t.Context(), second, second.Ledger.Add(entry("b"), now))
	require.ErrorIs(t, err, remove.ErrChanged)
	second, err = store.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first.Ledger, second.Ledger)
	_, err = store.Write(t.Context(), first, first.Ledger.Finished("uid-a"))
	require.NoError(t, err)
	_, err = store.Write(t.Context(), second, second.Ledger.Add(entry("b"), now))
	require.ErrorIs(t, err, remove.ErrChanged)
	stored, err := store.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, stored.Ledger.Removals, 1)
	assert.True(t, stored.Ledger.Removals[0].Done)

	// Spoiled in any way, it is an error, and stays as it is.
	controller, _ := shipped(t) // no other account may write it
	maps := controller.CoreV1().ConfigMaps(verify.Namespace)
	for name, data := range map[string]map[string]string{"no ledger": {verify.LedgerKey: "{"}, "no key": {}} {
		object, err := maps.Get(t.Context(), verify.LedgerMap, metav1.GetOptions{})
		require.NoError(t, err)
		object.Data = data
		_, err = maps.Update(t.Context(), object, metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = store.Read(t.Context())
		require.ErrorContains(t, err, "no Node is removed until this is corrected", name)
		_, err = store.Write(t.Context(), stored, stored.Ledger)
		require.ErrorIs(t, err, remove.ErrChanged, name)
		object, err = maps.Get(t.Context(), verify.LedgerMap, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, data[verify.LedgerKey], object.Data[verify.LedgerKey], name)
	}

	// Deleted by an operator, it is empty; what was read before cannot be written.
	require.NoError(t, maps.Delete(t.Context(), verify.LedgerMap, metav1.DeleteOptions{}))
	_, err = store.Write(t.Context(), stored, stored.Ledger)
	require.ErrorIs(t, err, remove.ErrChanged)
	empty, err := store.Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, empty.Ledger.Removals)
}
