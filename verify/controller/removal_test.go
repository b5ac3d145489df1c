package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// removes has the profile remove Nodes at the first failure, so that a test waits for one control Pod only.
func removes(profile *verify.Profile) {
	profile.OnFailure, profile.Attempts.Max = verify.RemoveNode, new(1)
}

// fleet returns a bed with so many verified Nodes that pass, of a profile that removes Nodes.
func fleet(t *testing.T, nodes int) *bed {
	t.Helper()
	b := newBed(t)
	b.use(removes)
	b.verified(passes)
	for i := range nodes - 1 {
		name := fmt.Sprint("good-", i)
		b.register(name, passes)
		b.change(name, func(node *corev1.Node) {
			node.Spec.Taints = nil
			b.hasPassed(node)
		})
	}
	return b
}

// fail has workers report a failure once all these Nodes have a worker Pod: one control Pod is then young enough to answer for all. For a worker Pod of later,
// the next control Pod starts only minutes after the first.
func (b *bed) fail(names ...string) {
	b.t.Helper()
	b.waitFor("every Node must have a worker Pod", func() bool {
		nodes := map[string]bool{}
		for _, pod := range b.podList() {
			nodes[pod.Spec.NodeName] = true
		}
		return !slices.ContainsFunc(names, func(name string) bool { return !nodes[name] })
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		b.report[name] = refuses
	}
}

// numbered returns names that begin alike.
func numbered(prefix string, plural int) (names []string) {
	for i := range plural {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

func (b *bed) exists(name string) bool {
	_, err := b.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	return err == nil
}

func (b *bed) ledger() verify.Ledger {
	b.t.Helper()
	object, err := b.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, verify.LedgerMap)
	if apierrors.IsNotFound(err) {
		return verify.Ledger{}
	}
	require.NoError(b.t, err)
	ledger, err := verify.ParseLedger(object.(*corev1.ConfigMap).Data[verify.LedgerKey])
	require.NoError(b.t, err)
	return ledger
}

func (b *bed) held(name string) *verify.Brake { return b.progress(name).RemovalHeld }

// isHeld is as held, for a Node that may be removed at any time.
func (b *bed) isHeld(name string) bool {
	object, err := b.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	return err == nil && verify.ParseProgress(object.(*corev1.Node).Annotations[verify.Annotation]).RemovalHeld != nil
}

func TestOneBrokenNodeOfFiftyIsRemovedOnce(t *testing.T) {
	b := fleet(t, 50)
	b.register("broken", refuses)
	c, stop := b.process()
	defer stop()
	b.waitFor("the Node must be removed", func() bool { return !b.exists("broken") })
	b.waitFor("the entry must be finished", b.allDone)
	removal, _ := first(b.ledger())
	assert.Equal(t, "broken", removal.Node)
	assert.Len(t, b.ledger().Removals, 1)
	events := b.drainEvents()
	assert.Equal(t, 1, count(events, NodeRemoved))
	assert.Zero(t, count(events, RemovalHeld))
	assert.InDelta(t, 1, series(t, c.Metrics.removals, "nodekeep_verify_removals_total", "node", outcomeRemoved), 0)
	for i := range 49 {
		assert.True(t, b.exists(fmt.Sprint("good-", i)))
	}
	kept, err := b.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), verify.ReportName("broken"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Contains(t, kept.Data[verify.ReportKey], "no answer")

	// The name is not removed again within 24 hours, and the cooldown holds others.
	b.pass(5 * time.Minute) // the control Pod of before is too old
	b.register("broken", "")
	b.register("other", "")
	b.fail("broken", "other")
	b.waitFor("the same name must be held", func() bool { return b.held("broken") != nil && b.held("broken").Reason == verify.BrakeSameNode })
	b.waitFor("the other one must be held", func() bool { return b.held("other") != nil && b.held("other").Reason == verify.BrakeCooldown })
	assert.Equal(t, removal.Time.Add(15*time.Minute).UTC(), b.held("other").End.UTC())
	assert.Len(t, b.ledger().Removals, 1)
	b.waitFor("the series must say so", func() bool { return brakeOpen(t, c, verify.BrakeCooldown) == 1 })
	assert.InDelta(t, 0, brakeOpen(t, c, verify.BrakeTooMany), 0)
	b.waitFor("Events must say so", func() bool { return len(b.events.Events) >= 4 })
	assert.Equal(t, 2, count(b.drainEvents(), RemovalHeld))
	b.say("other", passes)
	b.waitFor("a Node that is held opens by itself", func() bool { return isOpen(b.node("other")) })
}

// A Node of before verification was turned on has neither the label nor the annotation.
func TestANodeThatWasOpenIsNotRemovedWhenItsTaintIsAdded(t *testing.T) {
	for name, open := range map[string]func(*corev1.Node){
		"by kubectl taint": func(*corev1.Node) {},
		"with the label":   func(node *corev1.Node) { node.Labels = map[string]string{verify.Label: "true"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := fleet(t, 10)
			b.register("broken", refuses)
			taints := b.node("broken").Spec.Taints
			b.change("broken", func(node *corev1.Node) { node.Spec.Taints = nil; open(node) })
			c, stop := b.process()
			defer stop()
			b.waitFor("the Node must be observed", func() bool { return c.NodesSynced() })
			b.change("broken", func(node *corev1.Node) { node.Spec.Taints = taints })
			b.waitFor("attempts must fail", func() bool { return b.progress("broken").Failed >= 3 })
			assert.Equal(t, 1, b.progress("broken").Round)
			assert.Nil(t, b.held("broken"))
			assert.Empty(t, b.ledger().Removals)
			assert.NotContains(t, b.node("broken").Labels, verify.Label)
			b.say("broken", passes)
			b.waitFor("it must open when its checks pass", func() bool { return isOpen(b.node("broken")) })
		})
	}
}

// No Pod could run on these Nodes before either.
func TestANodeThatGetsItsTaintBeforeItTakesWorkloadsIsRemovedLikeAnyOther(t *testing.T) {
	const o = "example.com/startup"
	for name, test := range map[string]struct {
		old    string
		change func(*bed)
	}{
		"capture replaces the gate by it, since the webhook was down": {"nodekeep.dev/restoring", func(b *bed) {
			b.change("broken", func(node *corev1.Node) { node.Spec.Taints[0].Key = verify.Taint })
		}},
		"the policy has its key from now on": {o, func(b *bed) {
			b.use(func(profile *verify.Profile) { removes(profile); profile.Taint = o + ":NoSchedule" })
			b.change("broken", func(node *corev1.Node) { node.Labels["heartbeat"] = "1" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fleet(t, 50)
			b.register("broken", refuses)
			b.change("broken", func(node *corev1.Node) {
				node.Labels = map[string]string{}
				node.Spec.Taints = []corev1.Taint{{Key: test.old, Effect: corev1.TaintEffectNoSchedule}}
			})
			c, stop := b.process()
			defer stop()
			b.waitFor("the Node must be observed", func() bool { return c.NodesSynced() })
			test.change(b)
			b.waitFor("the Node must be removed", func() bool { return !b.exists("broken") })
		})
	}
}

func first(ledger verify.Ledger) (verify.Removal, bool) {
	if len(ledger.Removals) == 0 {
		return verify.Removal{}, false
	}
	return ledger.Removals[0], true
}

func brakeOpen(t *testing.T, c *Controller, reason verify.BrakeReason) float64 {
	t.Helper()
	return series(t, newStandingCollector(c), "nodekeep_verify_brake_open", string(reason))
}

func TestOfManyFailingNodesNoneIsRemovedAndOneEventSaysWhy(t *testing.T) {
	b := fleet(t, 20)
	bad, profiles := numbered("bad-", 8), b.profiles
	for _, name := range bad { // none has passed before the process starts, so that none is removed before others have failed
		b.register(name, "")
		b.change(name, func(node *corev1.Node) {
			node.Annotations = map[string]string{verify.Annotation: verify.Progress{Attempts: 1, Hash: profiles.All()[0].Hash, BootID: "b1", Last: &verify.Last{Result: verify.VerdictInconclusive, Time: time.Now()}}.String()}
		})
	}
	_, stop := b.process()
	defer stop()
	b.fail(bad...)
	b.waitFor("all must be held", func() bool {
		return !slices.ContainsFunc(bad, func(name string) bool { return b.held(name) == nil || b.held(name).Reason != verify.BrakeTooMany })
	})
	assert.Empty(t, b.ledger().Removals)
	require.Len(t, b.ledger().Brakes, 1, "the brake survives a restart")
	assert.Equal(t, verify.BrakeTooMany, b.ledger().Brakes[0].Reason)
	assert.Equal(t, 1, count(b.drainEvents(), RemovalHeld), "one Event, not one of each Node")
}

func TestABrakeClosesThoughTheNodeThatItHoldsFailsOnAndOn(t *testing.T) {
	b := fleet(t, 20)
	b.register("broken", "")
	_, stop := b.process()
	defer stop()
	b.breaks(refuses)
	b.waitFor("the brake must open", func() bool { return len(b.ledger().Brakes) > 0 })
	assert.Equal(t, verify.BrakeSharedFailure, b.ledger().Brakes[0].Reason)
	b.say("broken", refuses)
	b.breaks("")
	b.waitFor("the Node must be removed", func() bool {
		b.pass(time.Second)
		err := b.tryChange("broken", func(node *corev1.Node) { node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(b.now()) }) // so that the controller looks at it
		return apierrors.IsNotFound(err)
	})
}

func TestWhatCannotBeReadOrIsNotAllowedHoldsARemovalAndNothingElse(t *testing.T) {
	forbidden := func(verb, resource string) func(*bed) {
		return func(b *bed) {
			b.reacts(verb, resource, func(action k8stesting.Action) (bool, runtime.Object, error) {
				if resource == "configmaps" && action.(k8stesting.GetAction).GetName() != verify.LedgerMap {
					return false, nil, nil
				}
				if resource == "pods" && action.GetNamespace() != "" {
					return false, nil, nil
				}
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("no rights"))
			})
		}
	}
	for name, test := range map[string]struct {
		prepare func(*bed)
		profile func(*verify.Profile)
		reason  verify.BrakeReason
		says    string
		entries int
	}{
		"the ledger may not be read": {prepare: forbidden("get", "configmaps"), reason: verify.BrakeLedger, says: "no rights"},
		"the ledger is spoiled": {prepare: func(b *bed) {
			require.NoError(b.t, b.client.Tracker().Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: verify.LedgerMap}, Data: map[string]string{verify.LedgerKey: "{"}}))
		}, reason: verify.BrakeLedger, says: "no Node is removed until this is corrected"},
		"Pods may not be listed":     {prepare: forbidden("list", "pods"), reason: verify.BrakeAPIError, says: "no rights"},
		"no Node may be deleted":     {prepare: forbidden("delete", "nodes"), reason: verify.BrakeAPIError, says: "no rights", entries: 1},
		"a Pod runs on the Node":     {prepare: func(b *bed) { b.occupy("broken") }, reason: verify.BrakePods, says: "Pod default/workload runs on the Node"},
		"Karpenter is not there":     {prepare: func(*bed) {}, profile: func(p *verify.Profile) { removes(p); p.OnFailure = verify.RemoveNodeClaim }, reason: verify.BrakeRefused, says: "0 ownerReferences to a NodeClaim"},
		"Karpenter's CRD is deleted": {prepare: func(b *bed) { b.owned("broken") }, profile: func(p *verify.Profile) { removes(p); p.OnFailure = verify.RemoveNodeClaim }, reason: verify.BrakeRefused, says: "does not serve the API group karpenter.sh"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fleet(t, 10)
			if test.profile != nil {
				b.use(test.profile)
			}
			b.register("broken", refuses)
			test.prepare(b)
			_, stop := b.process()
			defer stop()
			b.waitFor("the removal must be held", func() bool { return b.held("broken") != nil })
			assert.Equal(t, test.reason, b.held("broken").Reason)
			assert.Contains(t, b.held("broken").Message, test.says)
			b.waitFor("an Event must say so", func() bool { return len(b.events.Events) >= 2 })
			assert.Equal(t, 1, count(b.drainEvents(), RemovalHeld))
			assert.True(t, b.exists("broken"))
			if test.reason != verify.BrakeLedger {
				assert.Len(t, b.ledger().Removals, test.entries)
			}
			b.say("broken", passes)
			b.waitFor("the checks go on, and open the Node", func() bool { return isOpen(b.node("broken")) })
		})
	}
}

// occupy has a workload run on a Node.
func (b *bed) occupy(name string) {
	b.t.Helper()
	require.NoError(b.t, b.client.Tracker().Add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workload", UID: "w"}, Spec: corev1.PodSpec{NodeName: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}))
}

// owned has a Node name a NodeClaim.
func (b *bed) owned(name string) {
	b.change(name, func(node *corev1.Node) {
		node.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: "claim", UID: "u"}}
	})
}

func TestAProcessThatIsKilledBetweenTheWritesOfARemovalNeverMakesItTwice(t *testing.T) {
	prepare := func() *bed {
		b := fleet(t, 10)
		b.register("broken", refuses)
		return b
	}
	ended := func(b *bed) bool { return !b.exists("broken") && len(b.podList()) <= 2 && b.allDone() }
	removed := func(b *bed) bool { return !b.exists("broken") }
	killed := killedAfterEachWrite(prepare, ended, removed, func(b *bed, killAt int) {
		assert.Len(t, b.ledger().Removals, 1, "killed after write %d: it counts once", killAt)
		assert.Equal(t, 1, b.wroteTimes("delete nodes"), "killed after write %d", killAt)
	})
	assert.GreaterOrEqual(t, killed, 5)
}

func (b *bed) allDone() bool {
	removal, ok := first(b.ledger())
	return ok && removal.Done
}

func TestAControllerThatTakesOverRemovesNoMoreThanTheBudgetLets(t *testing.T) {
	b := fleet(t, 60)
	bad := numbered("bad-", 6)
	for _, name := range bad {
		b.register(name, "")
	}
	_, stop := b.process()
	b.fail(bad...)
	b.waitFor("one must be removed", func() bool { return len(b.ledger().Removals) == 1 && b.allDone() })
	stop()
	_, stop = b.process()
	defer stop()
	b.waitFor("all the others must be held", func() bool {
		held := 0
		for _, name := range bad {
			if b.isHeld(name) {
				held++
			}
		}
		return held == 5
	})
	remaining := slices.DeleteFunc(bad, func(name string) bool { return !b.exists(name) })
	assert.Len(t, remaining, 5, "the cooldown is 15 minutes")
	assert.Len(t, b.ledger().Removals, 1)
}
