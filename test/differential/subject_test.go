package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/random"
)

// subject is one Node that the script is about: the real one, the model of it, and what happened to it so far. Its
// methods are called by one goroutine at a time.
type subject struct {
	name      string
	admin     kubernetes.Interface
	kubelet   kubernetes.Interface
	processes *processes

	wanted    *wanted
	pending   *pendingDeletion
	story     []string
	open      map[limit]int // labels for which each limit allowed another answer at the end of a round
	used      map[limit]int // those of them that had another answer than the last edit
	unchanged int           // edits that changed nothing although the Node did not show what the operator last wanted
}

// pendingDeletion is one that only capture saw, or several, and that no record showed yet.
type pendingDeletion struct {
	stops    int // of capture, before the first of them
	fallBack map[string][]answer
	expected map[string]answer // what the record shows once the deletion is recorded
}

func (s *subject) tell(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf(format, args...))
}

// run carries out one operation and informs the model.
func (s *subject) run(ctx context.Context, op operation) error {
	if err := s.resolve(ctx); err != nil {
		return err
	}
	switch op.kind {
	case registering:
		return s.register(ctx)
	case restarting:
		return s.restart(ctx)
	case deleting:
		return s.delete(ctx)
	default:
		return s.edit(ctx, op)
	}
}

func (s *subject) register(ctx context.Context) error {
	head := s.processes.String()
	node, err := s.kubelet.CoreV1().Nodes().Create(ctx, harness.Registration(s.name), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register node %q (%s): %w", s.name, head, err)
	}
	s.wanted.registered()
	s.tell("%s: register: uid %s version %s, shows %v, gate %t", head, node.UID, node.ResourceVersion, ours(node), random.Gated(node))
	return nil
}

// restart sends the CREATE that every kubelet sends when it starts, for a Node that exists.
func (s *subject) restart(ctx context.Context) error {
	head := s.processes.String()
	_, err := s.kubelet.CoreV1().Nodes().Create(ctx, harness.Registration(s.name), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("restart kubelet of node %q (%s): not AlreadyExists: %w", s.name, head, err)
	}
	s.tell("%s: restart the kubelet", head)
	return nil
}

func (s *subject) delete(ctx context.Context) error {
	node, seen, err := s.look(ctx)
	if err != nil {
		return err
	}
	webhook, capture, head := s.processes.webhook.now(), s.processes.capture.now(), s.processes.String()
	if err := s.admin.CoreV1().Nodes().Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete node %q: %w", s.name, err)
	}
	s.tell("%s: delete: showed %v; %s", head, ours(node), seen)
	fallBack := s.wanted.deleted()
	switch {
	case len(fallBack) == 0:
	case webhook.state == running && s.processes.webhook.upSince(webhook): // the DELETE hook saw it
	case capture.state == running && s.processes.capture.upSince(capture):
		s.pend(capture.stops, fallBack)
	default:
		s.wanted.mayBeLost(fallBack)
		s.tell("  edits since the last record of it may be lost: %v", fallBack)
	}
	return nil
}

// pend notes a deletion that capture has yet to record, in addition to earlier ones of that Node.
func (s *subject) pend(stops int, fallBack map[string][]answer) {
	if s.pending == nil {
		s.pending = &pendingDeletion{stops: stops, fallBack: map[string][]answer{}, expected: map[string]answer{}}
	}
	for key, answers := range fallBack {
		s.pending.fallBack[key] = union(s.pending.fallBack[key], answers)
		s.pending.expected[key] = s.wanted.labels[key].last
	}
}

// resolve looks what became of a deletion that only capture saw.
func (s *subject) resolve(ctx context.Context) error {
	if s.pending == nil {
		return nil
	}
	capture := s.processes.capture.now()
	seen, err := readRecord(ctx, s.admin, s.name)
	if err != nil {
		return err
	}
	remembers := seen.remembers()
	recorded := true
	for key, value := range s.pending.expected {
		recorded = recorded && in(remembers, key) == value
	}
	switch {
	case recorded:
		s.pending = nil
	case capture.stops != s.pending.stops:
		s.wanted.mayBeLost(s.pending.fallBack)
		s.tell("  capture stopped before it recorded the last deletion; edits may be lost: %v", s.pending.fallBack)
		s.pending = nil
	}
	return nil
}

// look reads the Node and then its record.
func (s *subject) look(ctx context.Context) (*corev1.Node, record, error) {
	node, err := s.admin.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, record{}, fmt.Errorf("read node %q: %w", s.name, err)
	}
	seen, err := readRecord(ctx, s.admin, s.name)
	if err != nil {
		return nil, record{}, err
	}
	if seen.UID == node.UID {
		s.wanted.recorded(seen.remembers())
	}
	return node, seen, nil
}

// maxTries bounds the tries of an edit on a Node that another client keeps changing.
const maxTries = 100

// edit does what `kubectl label` does, on exactly the state that was read, so that the model knows what changed.
func (s *subject) edit(ctx context.Context, op operation) error {
	for range maxTries {
		node, seen, err := s.look(ctx)
		if err != nil {
			return err
		}
		head := s.processes.String()
		_, err = random.Relabel(ctx, s.admin, s.name, values(op.edits), node.ResourceVersion)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("label node %q: %w", s.name, err)
		}
		s.tell("%s: %s %s: showed %v in version %s; %s", head, op.kind, edits(op.edits), ours(node), node.ResourceVersion, seen)
		s.edited(op.edits, node, seen)
		return nil
	}
	return fmt.Errorf("label node %q: it changed %d times in between", s.name, maxTries)
}

// edited gives the model the change of an edit.
func (s *subject) edited(edits map[string]answer, node *corev1.Node, seen record) {
	for key, value := range edits {
		if in(node.Labels, key) == value {
			if s.wanted.labels[key].last != value {
				s.unchanged++
				s.tell("  %s: nothing changed", key)
			}
			continue
		}
		// A kubelet can write a stamp, but it cannot lift the gate: for a label that it may not set, both must speak.
		_, lost := seen.NotShown.Labels[key] // with an older object; the record cannot tell a label that came and went since then
		proven := seen.UID == node.UID && !lost || stampLists(node, key) && (slices.Contains(ordinaryKeys(), key) || !random.Gated(node))
		s.wanted.edited(key, value, proven)
		if right := s.wanted.labels[key].right; len(right) > 1 {
			s.tell("  %s: not adopted, nothing proven: right is any of %q", key, right)
		}
	}
}

// values returns those of an edit as a patch has them.
func values(edits map[string]answer) map[string]any {
	labels := map[string]any{}
	for key, value := range edits {
		labels[key] = value
		if value == absent {
			labels[key] = nil
		}
	}
	return labels
}

func edits(edits map[string]answer) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(edits)) {
		if edits[key] == absent {
			words = append(words, key+"-")
		} else {
			words = append(words, key+"="+string(edits[key]))
		}
	}
	return strings.Join(words, " ")
}

func (r record) String() string {
	if r.version == "" {
		return "no record"
	}
	gone := ""
	if r.DeletedAt != nil {
		gone = ", gone"
	}
	return fmt.Sprintf("record of uid %s: %v%s", r.UID, r.remembers(), gone)
}
