package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	writersAll = 8
	writes     = 100 // of each writer
)

// taintWriter puts a taint of its own on Nodes and takes it off again, and knows where it must be.
type taintWriter struct {
	taint     corev1.Taint
	nodes     map[string]bool // by Node
	conflicts int
	wrong     []string // what it found otherwise than it had left it
}

// flip adds the taint to a Node or removes it, with an optimistic lock, and looks whether it was as this writer had left it.
func (w *taintWriter) flip(ctx context.Context, t *testing.T, name string) error {
	nodes := nodekeep.Admin.CoreV1().Nodes()
	for {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.look(node, "before a write")
		taints := harness.WithoutTaint(node.Spec.Taints, w.taint.ToString())
		if !w.nodes[name] {
			taints = append(taints, w.taint)
		}
		if rand.IntN(2) == 0 {
			node.Spec.Taints = taints
			node, err = nodes.Update(ctx, node, metav1.UpdateOptions{FieldManager: w.taint.Key})
		} else {
			node, err = nodes.Patch(ctx, name, types.MergePatchType, harness.MustJSON(t, map[string]any{
				"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": taints},
			}), metav1.PatchOptions{FieldManager: w.taint.Key})
		}
		switch {
		case apierrors.IsConflict(err):
			w.conflicts++
		case err != nil:
			return err
		default:
			w.nodes[name] = !w.nodes[name]
			w.look(node, "in the answer")
			return nil
		}
	}
}

func (w *taintWriter) look(node *corev1.Node, moment string) {
	if harness.Carries(node, w.taint.ToString()) != w.nodes[node.Name] {
		w.wrong = append(w.wrong, fmt.Sprintf("%s, version %s, %s: the taint should be on: %t", node.Name, node.ResourceVersion, moment, w.nodes[node.Name]))
	}
}

func eightWritersAndARuleLoseNothing(t *testing.T) {
	names := []string{"written-1", "written-2", "written-3", "written-4"}
	for _, name := range names {
		nodekeep.Register(t, name)
	}
	seen := nodekeep.WatchNodes(t)
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule}
	writers := make([]*taintWriter, writersAll)
	errs := make([]error, writersAll)
	var writing, labelling sync.WaitGroup
	for n := range writers {
		w := &taintWriter{taint: corev1.Taint{Key: fmt.Sprintf("writer-%d.example.com/own", n), Value: "v", Effect: effects[n%len(effects)]}, nodes: map[string]bool{}}
		writers[n] = w
		writing.Go(func() {
			for write := 0; write < writes && errs[n] == nil; write++ {
				errs[n] = w.flip(t.Context(), t, names[rand.IntN(len(names))])
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	written, final := make(chan struct{}), map[string]any{}
	labelling.Go(func() {
		for values := []any{"ci", "gpu", nil}; ; {
			select {
			case <-written:
				return
			case <-time.After(30 * time.Millisecond):
			}
			name, value := names[rand.IntN(len(names))], values[rand.IntN(len(values))]
			nodekeep.Label(t, name, map[string]any{"dedicated": value})
			final[name] = value
		}
	})
	writing.Wait()
	close(written)
	labelling.Wait()

	conflicts := 0
	for n, w := range writers {
		require.NoError(t, errs[n])
		conflicts += w.conflicts
	}
	for _, name := range names {
		var want []string
		if value, ok := final[name].(string); ok {
			want = append(want, "dedicated="+value+":NoSchedule")
		}
		for _, w := range writers {
			if w.nodes[name] {
				want = append(want, w.taint.ToString())
			}
		}
		comesToCarry(t, name, want...)
	}
	for _, w := range writers {
		assert.Empty(t, w.wrong, w.taint.Key)
	}
	seen.Stop()
	states, byRule := 0, 0
	for _, name := range names {
		middle, rule := differences(t, seen.States(name))
		states, byRule = states+middle, byRule+rule
	}
	t.Logf("%d writers met %d conflicts in %d writes each, while the taint of the rule changed %d times; %d states were looked at", writersAll, conflicts, writes, byRule, states)
	assert.Positive(t, byRule)
	for _, name := range names {
		nodekeep.Label(t, name, map[string]any{"dedicated": nil})
	}
}

// differences goes through the states of a Node: one write is one party's, so it changes one taint at most.
func differences(t *testing.T, states []harness.State) (count, byRule int) {
	t.Helper()
	var prev map[string]string
	for _, state := range states {
		now := record.Join(nil, state.Spec.Taints)
		if prev != nil && !maps.Equal(prev, now) {
			var changed []string
			for item, value := range now {
				if old, ok := prev[item]; !ok || old != value {
					changed = append(changed, item)
				}
			}
			for item := range prev {
				if _, ok := now[item]; !ok {
					changed = append(changed, item)
				}
			}
			assert.Len(t, changed, 1, "%s, version %s: a write undid another client's", state.Name, state.ResourceVersion)
			if changed[0] == "dedicated:NoSchedule" {
				byRule++
			}
		}
		prev, count = now, count+1
	}
	return count, byRule
}
