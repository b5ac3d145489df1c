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
	"nodekeep.dev/nodekeep/test/random"
)

// settles is how long everything may take to come to rest.
const settles = harness.Settles

// picture is all Nodes and records at one time.
type picture struct {
	nodes    map[string]*corev1.Node
	records  map[string]record
	versions map[string]string // of all of them
}

func take(ctx context.Context, admin kubernetes.Interface) (picture, error) {
	nodes, versions, err := random.Nodes(ctx, admin)
	if err != nil {
		return picture{}, err
	}
	p := picture{nodes: nodes, records: map[string]record{}, versions: versions}
	cms, err := admin.CoreV1().ConfigMaps(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: recordSelector})
	if err != nil {
		return picture{}, fmt.Errorf("list records: %w", err)
	}
	for i := range cms.Items {
		r, err := parseRecord(&cms.Items[i])
		if err != nil {
			return picture{}, err
		}
		p.records[r.Node], p.versions["record "+r.Node] = r, r.version
	}
	return p, nil
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
	case exists && random.Gated(node):
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
func (w *world) settle(ctx context.Context) (wrong map[string]string, last picture, err error) {
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
	wrong, err = random.Settle(settles, func() (wrong, versions map[string]string, err error) {
		if last, err = take(ctx, w.admin); err != nil {
			return nil, nil, err
		}
		wrong = map[string]string{}
		for _, s := range w.subjects {
			if complaint := s.complaint(last); complaint != "" {
				wrong[s.name] = complaint
			}
		}
		return wrong, last.versions, nil
	})
	if err != nil || len(wrong) > 0 {
		return wrong, last, err
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
