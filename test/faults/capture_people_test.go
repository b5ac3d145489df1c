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

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// person works on one Node, and knows what it must carry. What the API server does not answer is said again until it does.
type person struct {
	t       testing.TB
	admin   kubernetes.Interface
	kubelet kubernetes.Interface
	node    string
	dice    *rand.Rand

	labels      map[string]string
	maintenance string // value of a taint of the person's own; empty: none
	did         map[string]int
	flips       bool // the label of the rule comes back with values that it had; otherwise each value is a new one
	serial      int
}

// newPerson registers the Node and gives it a label that no kubelet may set.
func newPerson(t testing.TB, node string, seed uint64) *person {
	t.Helper()
	p := &person{t: t, admin: nodekeep.Admin, kubelet: kubelet(t, node), node: node, dice: rand.New(rand.NewPCG(seed, 1)), labels: map[string]string{}, did: map[string]int{}}
	p.register()
	p.set(worker, "")
	return p
}

// insist tries until the API server has done it.
func (p *person) insist(what string, try func(ctx context.Context) error) {
	p.did[what]++
	var err error
	for deadline := time.Now().Add(2 * settles); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		err = try(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	p.t.Errorf("%s of node %s: %v", what, p.node, err)
}

func (p *person) patch(what string, change map[string]any) {
	p.insist(what, func(ctx context.Context) error {
		_, err := p.admin.CoreV1().Nodes().Patch(ctx, p.node, types.MergePatchType, mustJSON(p.t, change), metav1.PatchOptions{FieldManager: "kubectl-label"})
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
		return putTaints(p.t, node, taints)
	})
}

func (p *person) register() {
	p.insist("registrations", func(ctx context.Context) error {
		_, err := p.kubelet.CoreV1().Nodes().Create(ctx, registration(p.node, nil), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (p *person) delete() {
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
	for deadline := time.Now().Add(2 * settles); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		node, err := p.admin.CoreV1().Nodes().Get(p.t.Context(), p.node, metav1.GetOptions{})
		if err != nil {
			continue
		}
		last = node
		if !gated(node) && maps.Equal(p.labels, labelsOfPeople(node)) && p.hasMaintenance(node) {
			return
		}
	}
	p.t.Errorf("node %s must come back with %v and maintenance=%q, but is %v %v", p.node, p.labels, p.maintenance, labelsOfPeople(last), taintsOf(last))
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
		p.set("dedicated", value)
	case 6:
		p.remove("dedicated")
	case 7:
		p.setMaintenance([]string{"", "disk", "net"}[p.dice.IntN(3)])
	default:
		p.delete()
		p.register()
		p.comesBack()
	}
}

// labelsOfPeople are the labels that a kubelet does not set.
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

// taints are those that the Node must carry where the rule makes taints of this effect.
func (p *person) taints(effect string) []string {
	taints := []string{}
	if value, dedicated := p.labels["dedicated"]; dedicated {
		taints = append(taints, "dedicated="+value+":"+effect)
	}
	if p.maintenance != "" {
		taints = append(taints, "maintenance="+p.maintenance+":NoExecute")
	}
	return taints
}

// isRight reports whether the Node and its record are as the person wants them.
func (p *person) isRight(effect string) (right bool, is string) {
	node, err := p.admin.CoreV1().Nodes().Get(p.t.Context(), p.node, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	record, ok := recordOf(p.t, p.node)
	items := maps.Clone(p.labels)
	if p.maintenance != "" {
		items["maintenance:NoExecute"] = p.maintenance
	}
	rules := []string{}
	for _, taint := range derivedOf(node) {
		rules = append(rules, taint.ToString())
	}
	wantRules := slices.DeleteFunc(p.taints(effect), func(text string) bool { return !strings.HasPrefix(text, "dedicated=") })
	right = !gated(node) && maps.Equal(labelsOfPeople(node), p.labels) && slices.Equal(taintsOf(node), p.taints(effect)) &&
		ok && record.Newest().UID == node.UID && maps.Equal(record.Items(), items) && slices.Equal(rules, wantRules) && record.DeletedAt.IsZero()
	return right, fmt.Sprintf("labels %v, taints %v; record of it: %t, items %v, rule taints %v, deleted %v", labelsOfPeople(node), taintsOf(node),
		record.Newest().UID == node.UID, record.Items(), rules, record.DeletedAt)
}

// people are some at once.
type people []*person

func newPeople(t testing.TB, prefix string, count int) people {
	t.Helper()
	all := make(people, count)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var each sync.WaitGroup
	for n, name := range nodeNames(fmt.Sprintf("%s-%x", prefix, seed>>48), count) { // what is remembered of an earlier run is not theirs
		each.Go(func() { all[n] = newPerson(t, name, seed+uint64(n)) })
	}
	each.Wait()
	return all
}

// work lets all of them act until told to stop, with a pause between two acts.
func (all people) work(pause time.Duration) (stop func()) {
	ends := make(chan struct{})
	var each sync.WaitGroup
	for _, p := range all {
		each.Go(func() {
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
	return sync.OnceFunc(func() { close(ends); each.Wait() })
}

// areRight waits until every Node and record is as it must be, and says how long that took.
func (all people) areRight(t testing.TB, effect string) time.Duration {
	t.Helper()
	started := time.Now()
	for _, p := range all {
		right, is := p.isRight(effect)
		for !right && time.Since(started) < settles {
			time.Sleep(10 * time.Millisecond)
			right, is = p.isRight(effect)
		}
		if !right {
			t.Errorf("node %s must carry %v and %v, and so must its record, but there are %s", p.node, p.labels, p.taints(effect), is)
		}
	}
	return time.Since(started)
}

// with says of each of their Nodes that it should carry these labels.
func (all people) with(labels map[string]string) map[string]map[string]string {
	should := map[string]map[string]string{}
	for _, p := range all {
		should[p.node] = labels
	}
	return should
}

// did sums up what all of them did.
func (all people) did() string {
	sum := map[string]int{}
	for _, p := range all {
		for what, times := range p.did {
			sum[what] += times
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
