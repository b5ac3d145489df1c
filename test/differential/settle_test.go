package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// How long everything may take to come to rest, and for how long nothing must have changed then.
const (
	settles = harness.Settles
	quiet   = 300 * time.Millisecond
)

// picture is all Nodes and records at one time.
type picture struct {
	nodes   map[string]*corev1.Node
	records map[string]record
}

func take(ctx context.Context, admin kubernetes.Interface) (picture, error) {
	p := picture{nodes: map[string]*corev1.Node{}, records: map[string]record{}}
	nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return picture{}, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		p.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	cms, err := admin.CoreV1().ConfigMaps(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: recordSelector})
	if err != nil {
		return picture{}, fmt.Errorf("list records: %w", err)
	}
	for i := range cms.Items {
		r, err := parseRecord(&cms.Items[i])
		if err != nil {
			return picture{}, err
		}
		p.records[r.Node] = r
	}
	return p, nil
}

// versions shows whether anything was written in between.
func (p picture) versions() map[string]string {
	all := map[string]string{}
	for name, node := range p.nodes {
		all["node "+name] = node.ResourceVersion
	}
	for name, r := range p.records {
		all["record "+name] = r.version
	}
	return all
}

// shown returns what is there of a Node: its labels, or its record while it is deleted.
func (p picture) shown(name string) map[string]string {
	if node, exists := p.nodes[name]; exists {
		return ours(node)
	}
	return p.records[name].remembers()
}

// complaint says what is not, or not yet, as it should be.
func (s *subject) complaint(p picture) string {
	node, exists := p.nodes[s.name]
	r := p.records[s.name]
	switch {
	case exists != s.wanted.exists:
		return fmt.Sprintf("the Node exists: %t, wanted %t", exists, s.wanted.exists)
	case exists && gated(node):
		return "the gate is on"
	case exists && r.version == "" && len(ours(node)) > 0:
		return "there is no record"
	case exists && r.version != "" && (r.UID != node.UID || r.DeletedAt != nil):
		return "the record is not of this object"
	case exists && !maps.Equal(r.remembers(), ours(node)):
		return fmt.Sprintf("the record has %v, the Node %v", r.remembers(), ours(node))
	case !exists && r.version != "" && r.DeletedAt == nil:
		return "the record does not say that the Node is deleted"
	}
	if wrong := s.wanted.wrong(p.shown(s.name)); len(wrong) > 0 {
		return fmt.Sprintf("got %v, but right is %q", p.shown(s.name), wrong)
	}
	return ""
}

// settle brings everything up, waits until all is at rest and as the model says, and takes over what is there. The result
// names the subjects that did not get there, with the last picture.
func (w *world) settle(ctx context.Context) (wrong map[*subject]string, last picture, err error) {
	if err := w.processes.resume(); err != nil {
		return nil, picture{}, err
	}
	if err := w.processes.bring(ctx, part{webhook: true, capture: true}); err != nil {
		return nil, picture{}, err
	}
	if err := w.landmark.pass(ctx); err != nil {
		return nil, picture{}, err
	}
	for _, s := range w.subjects {
		if err := s.resolve(ctx); err != nil {
			return nil, picture{}, err
		}
	}
	var before map[string]string
	for deadline := time.Now().Add(settles); ; time.Sleep(quiet) {
		if last, err = take(ctx, w.admin); err != nil {
			return nil, picture{}, err
		}
		wrong = map[*subject]string{}
		for _, s := range w.subjects {
			if complaint := s.complaint(last); complaint != "" {
				wrong[s] = complaint
			}
		}
		now := last.versions()
		if len(wrong) == 0 && maps.Equal(before, now) {
			break
		}
		if len(wrong) > 0 && time.Now().After(deadline) {
			return wrong, last, nil
		}
		before = now
	}
	for _, s := range w.subjects {
		open, used := s.wanted.settled(last.shown(s.name))
		for _, limit := range open {
			s.open[limit]++
		}
		for _, limit := range used {
			s.used[limit]++
		}
		s.pending = nil
		s.tell("  settled: %v", last.shown(s.name))
	}
	return nil, last, nil
}

// landmark is a Node outside the script. What capture records of it comes behind everything that happened before: once its
// record is current, capture's watch has brought it all.
type landmark struct {
	subject
	passed int
}

func (l *landmark) pass(ctx context.Context) error {
	l.passed++
	value := answer(fmt.Sprint(l.passed))
	key := slices.Min(ordinaryKeys())
	if err := l.edit(ctx, operation{kind: labelling, edits: map[string]answer{key: value}}); err != nil {
		return err
	}
	for deadline := time.Now().Add(settles); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		r, err := readRecord(ctx, l.admin, l.name)
		if err != nil {
			return err
		}
		if in(r.remembers(), key) == value {
			return nil
		}
	}
	return fmt.Errorf("record node %q: not current after %s", l.name, settles)
}
