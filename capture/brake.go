package capture

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/store"
)

// brakeAgain is how long corrections are held before capture looks again whether they still have to be.
const brakeAgain = 30 * time.Second

// brake keeps capture from removing or reverting items on many Nodes, for whatever reason. A mass effect needs an operator's word. The count
// is in a ConfigMap, so that neither a restart nor a second replica begins it anew.
type brake struct {
	looking  sync.Mutex // one worker looks at a time
	until    time.Time  // held until then, without another look
	reported time.Time  // when it was said that corrections are held; zero: not since they were allowed last

	mu   sync.Mutex
	held map[string]time.Time // until when Nodes wait
}

// nodes returns how many Nodes wait.
func (b *brake) nodes(now time.Time) (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, until := range b.held {
		if now.After(until.Add(brakeAgain)) { // it was decided otherwise since
			delete(b.held, name)
		}
	}
	return len(b.held)
}

// holds notes until when a Node waits; zero: it does not.
func (b *brake) holds(node string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.held, node); !until.IsZero() {
		b.held[node] = until
	}
}

// corrects reports whether a change removes or reverts items, as far as that counts.
func (a *attempt) corrects(change plan.Plan) bool {
	return !a.corrected && change.Any(plan.Correction) && a.Now().Sub(a.node.CreationTimestamp.Time) >= freshFor
}

// mayCorrect reports whether this Node may be corrected now, and counts it.
func (a *attempt) mayCorrect(ctx context.Context) (allowed bool, err error) {
	b := &a.brake
	b.looking.Lock()
	defer b.looking.Unlock()
	now := a.Now()
	if now.Before(b.until) {
		b.holds(a.node.Name, b.until)
		return false, nil
	}
	state, err := a.configMaps.Get(ctx, store.AcceptedName)
	if err != nil {
		return false, err
	}
	live, _, _ := a.observations.counts()
	var data map[string]string
	if state != nil {
		data = state.Data
	}
	count, known, allowed := judgeCorrections(data, live, now)
	if !allowed {
		b.until = now.Add(brakeAgain)
		b.holds(a.node.Name, b.until)
		if now.Sub(b.reported) >= correctedWithin {
			b.reported = now
			a.reportBrake(count.nodes(), live, known)
		}
		if known {
			return false, nil
		}
	} else {
		b.reported = time.Time{}
		b.holds(a.node.Name, time.Time{})
	}
	next := count.andOneMore(now)
	if state == nil {
		err = a.configMaps.Set(ctx, store.AcceptedName, false, map[string]*string{store.Corrected: &next})
	} else {
		_, err = a.Client.CoreV1().ConfigMaps(a.Namespace).Patch(ctx, store.AcceptedName, types.MergePatchType,
			store.PatchOf(state, store.Corrected, next), metav1.PatchOptions{FieldManager: observe.FieldManager})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was faster
		return false, err
	}
	return allowed && err == nil, err
}

// withoutCorrections makes what is left of a change while corrections are held.
func (a *attempt) withoutCorrections(ctx context.Context, next Action) (result, error) {
	a.later(a.node.Name, brakeAgain)
	held := next.By(plan.Correction)
	next.Plan, _ = next.Without(func(set plan.Setting) bool {
		return slices.ContainsFunc(held, func(edit plan.Edit) bool { return edit.Item == set.Item })
	})
	if next.Step = stepFor(next.Plan); next.Step == Nothing {
		return postponed, nil
	}
	return a.act(ctx, next)
}

// reportBrake reports that corrections are held. The count is not known where something else than nodekeep has written it.
func (c *Controller) reportBrake(nodes, of int, known bool) {
	did := fmt.Sprintf("%d of %d did", nodes, of)
	if !known {
		did = fmt.Sprintf("how many did is unknown, because key %s of ConfigMap %s was overwritten", store.Corrected, store.AcceptedName)
	}
	c.Logger.Error("records would remove items from many nodes, or revert them there; that is held until an operator accepts it", "nodes", nodes, "of", of, "known", known)
	c.warnOfPolicy(CorrectionsHeld,
		"By their records, more than one Node in ten would lose or change labels or taints within an hour: %s. The others are held. This should never happen: first find out what changed the records (nodekeep diff shows what is due on a Node). To accept it for an hour: nodekeep policy accept corrections",
		did)
}
