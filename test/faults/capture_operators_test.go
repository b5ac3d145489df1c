package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// person works on one Node, and knows what it must carry. What the API server does not answer is said again until it does.
type person struct {
	t       testing.TB
	admin   kubernetes.Interface
	kubelet kubernetes.Interface
	node    string
	dice    *rand.Rand

	labels      map[string]string
	maintenance string // value of a taint of the operator's own; empty: none
	done        map[string]int
	flips       bool // the label of the rule is set again with values that it had; otherwise each value is a new one
	serial      int

	serving *sync.RWMutex // held while the API server stops: it then reviews deletions that the webhook can no longer look at
}

// newPerson registers the Node and gives it a label that no kubelet may set.
func newPerson(t testing.TB, node string, seed uint64) *person {
	t.Helper()
	p := &person{t: t, admin: nodekeep.Admin, kubelet: nodekeep.Kubelet(t, node), node: node, dice: rand.New(rand.NewPCG(seed, 1)), labels: map[string]string{}, done: map[string]int{}, serving: &sync.RWMutex{}}
	p.register()
	p.set(worker, "")
	return p
}

// insist tries until the API server has done it.
func (p *person) insist(subject string, try func(ctx context.Context) error) {
	p.done[subject]++
	var err error
	for deadline := time.Now().Add(2 * harness.Settles); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(p.t.Context(), harness.Settles/6)
		err = try(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	p.t.Errorf("%s of node %s: %v", subject, p.node, err)
}

func (p *person) patch(subject string, change map[string]any) {
	p.insist(subject, func(ctx context.Context) error {
		_, err := p.admin.CoreV1().Nodes().Patch(ctx, p.node, types.MergePatchType, harness.MustJSON(p.t, change), metav1.PatchOptions{FieldManager: "kubectl-label"})
		return err
	})
}

func (p *person) set(key, value string) {
	p.labels[key] = value
	p.patch("labels", map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}})
}

func (p *person) remove(key string) {
	delete(p.labels, key)
	p.patch("labels", map[string]any{"metadata": map[string]any{"labels": map[string]any{key: nil}}})
}

// setMaintenance puts the taint on, changes it, or takes it off.
func (p *person) setMaintenance(value string) {
	p.maintenance = value
	p.insist("taints", func(ctx context.Context) error {
		node, err := p.admin.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		taints := slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "maintenance" })
		if value != "" {
			taints = append(taints, corev1.Taint{Key: "maintenance", Value: value, Effect: corev1.TaintEffectNoExecute})
		}
		_, err = nodekeep.PutTaints(p.t, node, taints, "kubectl-taint")
		return err
	})
}

func (p *person) register() {
	p.insist("registrations", func(ctx context.Context) error {
		_, err := p.kubelet.CoreV1().Nodes().Create(ctx, harness.Registration(p.node), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (p *person) delete() {
	p.serving.RLock()
	defer p.serving.RUnlock()
	p.insist("deletions", func(ctx context.Context) error {
		err := p.admin.CoreV1().Nodes().Delete(ctx, p.node, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// comesBack waits until the Node has what it should have; only then an edit says anything.
func (p *person) comesBack() {
	var last *corev1.Node
	for deadline := time.Now().Add(2 * harness.Settles); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		node, err := p.admin.CoreV1().Nodes().Get(p.t.Context(), p.node, metav1.GetOptions{})
		if err != nil {
			continue
		}
		last = node
		if !harness.Gated(node) && maps.Equal(p.labels, labelsOfPeople(node)) && p.hasMaintenance(node) {
			return
		}
	}
	p.t.Errorf("node %s must register with %v and maintenance=%q, but is %v %v", p.node, p.labels, p.maintenance, labelsOfPeople(last), harness.TaintsOf(last))
}

func (p *person) hasMaintenance(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == "maintenance" {
			return taint.Value == p.maintenance
		}
	}
	return p.maintenance == ""
}

// act does something.
func (p *person) act() {
	value := fmt.Sprintf("v%d", p.dice.IntN(5))
	switch p.dice.IntN(10) {
	case 0, 1, 2:
		p.set(fmt.Sprintf("example.com/k%d", p.dice.IntN(3)), value)
	case 3:
		p.remove(fmt.Sprintf("example.com/k%d", p.dice.IntN(3)))
	case 4, 5:
		if !p.flips {
			p.serial++
			value = fmt.Sprintf("s%d", p.serial)
		}
		p.set("lane", value)
	case 6:
		p.remove("lane")
	case 7:
		p.setMaintenance([]string{"", "disk", "net"}[p.dice.IntN(3)])
	default:
		p.delete()
		p.register()
		p.comesBack()
	}
}

// labelsOfPeople returns the labels that a kubelet does not set.
func labelsOfPeople(node *corev1.Node) map[string]string {
	labels := map[string]string{}
	if node != nil {
		maps.Copy(labels, node.Labels)
	}
	maps.DeleteFunc(labels, func(key, _ string) bool {
		return strings.HasPrefix(key, "kubernetes.io/") || strings.HasPrefix(key, "beta.kubernetes.io/")
	})
	return labels
}

// taints returns those that the Node must carry where the rule makes taints of this effect.
func (p *person) taints(effect string) []string {
	taints := []string{}
	if value, ok := p.labels["lane"]; ok {
		taints = append(taints, "lane="+value+":"+effect)
	}
	if p.maintenance != "" {
		taints = append(taints, "maintenance="+p.maintenance+":NoExecute")
	}
	return taints
}

// isRight reports whether the Node and its record are as the operator wants them.
func (p *person) isRight(effect string) (right bool, value string) {
	node, err := p.admin.CoreV1().Nodes().Get(p.t.Context(), p.node, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	record, ok := nodekeep.Record(p.t, p.node)
	items := maps.Clone(p.labels)
	if p.maintenance != "" {
		items["maintenance:NoExecute"] = p.maintenance
	}
	rules := []string{}
	for _, taint := range derivedOf(node) {
		rules = append(rules, taint.ToString())
	}
	wantRules := slices.DeleteFunc(p.taints(effect), func(text string) bool { return !strings.HasPrefix(text, "lane=") })
	right = !harness.Gated(node) && maps.Equal(labelsOfPeople(node), p.labels) && slices.Equal(harness.TaintsOf(node), p.taints(effect)) &&
		ok && record.Newest().UID == node.UID && maps.Equal(record.Items(), items) && slices.Equal(rules, wantRules) && record.DeletedAt.IsZero()
	return right, fmt.Sprintf("labels %v, taints %v; record of it: %t, items %v, rule taints %v, deleted %v", labelsOfPeople(node), harness.TaintsOf(node),
		record.Newest().UID == node.UID, record.Items(), rules, record.DeletedAt)
}

// people are some at once.
type people []*person

func newPeople(t testing.TB, prefix string, count int) people {
	t.Helper()
	all := make(people, count)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var item sync.WaitGroup
	var serving sync.RWMutex
	for n, name := range names(fmt.Sprintf("%s-%x", prefix, seed>>48), count) { // what is recorded of an earlier run is not theirs
		item.Go(func() {
			all[n] = newPerson(t, name, seed+uint64(n))
			all[n].serving = &serving
		})
	}
	item.Wait()
	return all
}

// work lets all of them act until told to stop, with a pause between two acts.
func (all people) work(pause time.Duration) (stop func()) {
	ends := make(chan struct{})
	var item sync.WaitGroup
	for _, p := range all {
		item.Go(func() {
			for {
				select {
				case <-ends:
					return
				case <-time.After(pause):
					p.act()
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(ends); item.Wait() })
}

// areRight waits until every Node and record is as it must be, and says how long that took.
func (all people) areRight(t testing.TB, effect string) time.Duration {
	t.Helper()
	started := time.Now()
	for _, p := range all {
		right, value := p.isRight(effect)
		for !right && time.Since(started) < harness.Settles {
			time.Sleep(10 * time.Millisecond)
			right, value = p.isRight(effect)
		}
		if !right {
			t.Errorf("node %s must carry %v and %v, and so must its record, but there are %s", p.node, p.labels, p.taints(effect), value)
		}
	}
	return time.Since(started)
}

// neverSchedulableWithoutLabel asserts of the states that a watch saw that no Node of theirs was ever schedulable without the label of newPerson.
func (all people) neverSchedulableWithoutLabel(t testing.TB, seen []harness.State) {
	t.Helper()
	want := map[string]map[string]string{}
	for _, p := range all {
		want[p.node] = map[string]string{worker: ""}
	}
	neverSchedulableWithout(t, seen, want)
}

// summary sums up what all of them did.
func (all people) summary() string {
	sum := map[string]int{}
	for _, p := range all {
		for subject, times := range p.done {
			sum[subject] += times
		}
	}
	return strings.TrimPrefix(fmt.Sprint(sum), "map")
}

// forget deletes the Nodes.
func (all people) forget(t testing.TB) {
	t.Helper()
	for _, p := range all {
		require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), p.node, metav1.DeleteOptions{}))
	}
}

// Both act at once all the time, which with the election they do for a moment at most.
func TestTwoCapturesThatBothBelieveToLeadLoseNothing(t *testing.T) { twoCaptures(t, false) }

// The one capture may strike a taint out of the record by an observation without the label while the other adds the same taint
// anew: which of them came first is for the record to say.
func TestTwoCapturesUnderALabelThatIsRemovedAndSetAgainKeepItsTaintTheirOwn(t *testing.T) {
	twoCaptures(t, true)
}

func twoCaptures(t *testing.T, flips bool) {
	t.Helper()
	second := nodekeep.StartReplica(t, "capture", noElection).UntilReady(t).Metrics
	first := nodekeep.MetricsURL("capture")
	all := newPeople(t, "two", 8)
	defer all.forget(t)
	for _, p := range all {
		p.flips = flips
	}
	stop := all.work(20 * time.Millisecond)
	time.Sleep(4 * time.Second)
	stop()
	took := all.areRight(t, "NoSchedule")
	acts, lost := "nodekeep_capture_steps_total", `nodekeep_controller_errors_total{controller="capture",kind="node_conflict"}`
	t.Logf("%s were right %s after the last; the captures made %.0f and %.0f steps, and %.0f and %.0f patches of Nodes were lost to the other one and planned again",
		all.summary(), took.Round(time.Millisecond), harness.Series(t, first, acts), harness.Series(t, second, acts),
		harness.Series(t, first, lost), harness.Series(t, second, lost))
	assert.Positive(t, harness.Series(t, first, acts), "the first must have taken part")
	assert.Positive(t, harness.Series(t, second, acts), "the second must have taken part")
}

// Each takes the policy over at a time of its own, so for a moment they may follow different rules and undo each other.
func TestTwoCapturesWithDifferentRulesForAMomentComeToTheNewOnes(t *testing.T) {
	second := nodekeep.StartReplica(t, "capture", noElection).UntilReady(t).Metrics
	all := newPeople(t, "two-rules", 6)
	defer all.forget(t)
	for _, p := range all {
		p.set("lane", "v0")
	}
	all.areRight(t, "NoSchedule")
	prev := captureSeries(t, "nodekeep_capture_steps_total") + harness.Series(t, second, "nodekeep_capture_steps_total")
	changeRules(t)
	for _, p := range all {
		p.set("lane", "v1")
		p.setMaintenance("disk")
	}
	took := all.areRight(t, "PreferNoSchedule")
	time.Sleep(time.Second)
	all.areRight(t, "PreferNoSchedule")
	next := captureSeries(t, "nodekeep_capture_steps_total") + harness.Series(t, second, "nodekeep_capture_steps_total")
	t.Logf("%d Nodes followed the new rules %s after the edits, which took %.0f steps of both captures", len(all), took.Round(time.Millisecond), next-prev)
}

// changeRules gives the taints of a rule another effect, in the policy that running processes follow, until the end of the test.
func changeRules(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, nodekeep.WritePolicy(ctx, strings.ReplaceAll(rules, "{value}:NoSchedule", "{value}:PreferNoSchedule")))
	t.Cleanup(func() { nodekeep.WithoutBoth(t, func() { require.NoError(t, nodekeep.WritePolicy(ctx, rules)) }) })
}

// Webhook and capture take a policy over at times of their own. A Node that registers in
// between gets taints by rules of which capture does not know, yet or any more.
func TestRulesThatChangeUnderRegistrationsLeaveNoTaintBehind(t *testing.T) {
	all := newPeople(t, "rules-change", 8)
	defer all.forget(t)
	stop := all.work(20 * time.Millisecond)
	time.Sleep(time.Second)
	changeRules(t)
	time.Sleep(2 * time.Second)
	stop()
	took := all.areRight(t, "PreferNoSchedule")
	t.Logf("%s were right %s after the last", all.summary(), took.Round(time.Millisecond))
}

func TestAnAPIServerThatRestartsUnderEditsAndRegistrationsLosesNothing(t *testing.T) {
	// A leader that cannot renew its Lease for 10 s ends, and nobody here would start it again as a Deployment does.
	captureWith(t, nil, noElection)
	all := newPeople(t, "restarted", 8)
	defer all.forget(t)
	all.areRight(t, "NoSchedule")
	const failed = `nodekeep_webhook_deletions_total{outcome="failed"}`
	prev := webhookSeries(t, failed)
	watcher := nodekeep.WatchNodes(t)
	stop := all.work(20 * time.Millisecond)
	time.Sleep(2 * time.Second)
	started := time.Now()
	all[0].serving.Lock() // this API server is the only one: of a deletion while it stops nobody can ask it (docs/design.md 5.8, limit 1)
	require.NoError(t, nodekeep.Cluster.RestartAPIServer(t.Context()))
	all[0].serving.Unlock()
	absent := time.Since(started)
	time.Sleep(2 * time.Second)
	stop()
	took := all.areRight(t, "NoSchedule")
	states := watcher.Stop()
	all.neverSchedulableWithoutLabel(t, states)
	assert.InDelta(t, prev, webhookSeries(t, failed), 0, "deletions that the webhook could not record")
	t.Logf("the API server was away for %s; %s were all right %s after the last; %d states seen", absent.Round(time.Millisecond), all.summary(), took.Round(time.Millisecond), len(states))
}
