package cluster

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

func sequence[T any](items []T, end error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if end != nil {
			var zero T
			yield(zero, end)
		}
	}
}

// listed returns Nodes and records as the API server lists them: by the names of the objects.
func listed(nodes, recorded []string) ([]*corev1.Node, []store.Listed) {
	var objects []*corev1.Node
	for _, name := range slices.Sorted(slices.Values(nodes)) {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	var records []store.Listed
	for _, name := range recorded {
		records = append(records, store.Listed{ConfigMap: store.Name(name), Node: name, Entry: store.Entry{Record: record.Record{Node: name}}})
	}
	slices.SortFunc(records, func(a, b store.Listed) int { return strings.Compare(a.ConfigMap, b.ConfigMap) })
	return objects, records
}

func TestEveryNodeAndEveryRecordIsJoinedWhateverTheirNames(t *testing.T) {
	dice := rand.New(rand.NewSource(1))
	long := strings.Repeat("n", 240)
	for range 300 {
		var nodes, recorded []string
		want := map[string][2]bool{}
		for range dice.Intn(12) {
			name := fmt.Sprintf("%s%c%d", []string{"", "a.", "a-", "node.", long, long + "."}[dice.Intn(6)], 'a'+dice.Intn(4), dice.Intn(30000000))
			live, kept := dice.Intn(3) > 0, dice.Intn(3) > 0
			if _, dup := want[name]; dup || !live && !kept {
				continue
			}
			want[name] = [2]bool{live, kept}
			if live {
				nodes = append(nodes, name)
			}
			if kept {
				recorded = append(recorded, name)
			}
		}
		objects, records := listed(nodes, recorded)

		got := map[string][2]bool{}
		var short []string
		for state, err := range mergeLists(sequence(objects, nil), sequence(records, nil)) {
			require.NoError(t, err)
			require.NotContains(t, got, state.Name, "twice")
			got[state.Name] = [2]bool{state.Node != nil, state.Record != nil}
			if !store.Shortened(state.Name) {
				short = append(short, state.Name)
			}
		}
		require.Equal(t, want, got)
		assert.True(t, slices.IsSorted(short), "%v", slices.Sorted(maps.Keys(want)))
	}
}

func TestAConfigMapUnderAClientsNameIsShownApart(t *testing.T) {
	nodes, records := listed([]string{"worker-1"}, []string{"worker-1"})
	stray := store.Listed{ConfigMap: "copy-of-worker-1", Node: "copy-of-worker-1", Err: store.ErrUnreadable}
	var names []string
	for state, err := range mergeLists(sequence(nodes, nil), sequence(append([]store.Listed{stray}, records...), nil)) {
		require.NoError(t, err)
		names = append(names, state.Name)
		if state.Name == "worker-1" {
			assert.NotNil(t, state.Record)
		} else {
			require.ErrorIs(t, state.Unreadable, store.ErrUnreadable)
		}
	}
	assert.Equal(t, []string{"worker-1", "copy-of-worker-1"}, names)
}

func TestAnErrorInEitherListEndsTheJoinedOne(t *testing.T) {
	broken := errors.New("broken")
	nodes, records := listed([]string{"a", "c"}, []string{"b"})
	for name, seq := range map[string]iter.Seq2[nodestate.State, error]{
		"in that of Nodes":   mergeLists(sequence(nodes, broken), sequence(records, nil)),
		"in that of records": mergeLists(sequence(nodes, nil), sequence(records, broken)),
	} {
		t.Run(name, func(t *testing.T) {
			var failed error
			for state, err := range seq {
				require.NoError(t, failed)
				if failed = err; err == nil {
					assert.NotEmpty(t, state.Name)
				}
			}
			assert.ErrorIs(t, failed, broken)
		})
	}
}
