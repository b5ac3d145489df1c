package main

import (
	"context"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/test/bench/bed"
	"nodekeep.dev/nodekeep/test/harness"
)

// What operators set while writes are counted. The first two labels are among those of bed.Kept.
const (
	editedLabel    = "example.com/k0"
	editedValue    = "edited"
	removedLabel   = "example.com/k1"
	lastKeptValue  = "value-9"
	ruleValue      = "ci"      // of ruleLabel
	atOnceValue    = "at-once" // of changedLabel
	protectedLabel = "node-role.kubernetes.io/bench"
	maintenance    = "example.com/maintenance" // a taint
)

// event happens to each of some Nodes. What nodekeep writes meanwhile is counted.
type event struct {
	name    string
	fresh   bool                                               // it happens to Nodes that were never there before
	prepare func(ctx context.Context, s *side, nodes []string) // is not counted
	perRun  func(ctx context.Context, s *side)
	perNode func(ctx context.Context, s *side, node string) error
	done    condition // whether nodekeep has done its work; nil where a later event shows it
}

// condition is what may hold for a Node.
type condition func(ctx context.Context, s *side, node string) bool

// events happen one after the other to the same Nodes, which the cluster had before nodekeep was installed.
func events() []event {
	return []event{
		{name: "first capture", prepare: withoutNodekeep, perRun: startCapture, done: recorded(lastKeptValue)},
		{name: "heartbeat", perNode: heartbeat},
		{name: "label changed", perNode: setLabel(editedLabel, ptr.To(editedValue)), done: recorded(editedValue)},
		{name: "label removed", perNode: setLabel(removedLabel, nil)},
		{name: "taint added", perNode: taint, done: recorded(maintenance)},
		{name: "label of a taint rule added", perNode: setLabel(ruleLabel, ptr.To(ruleValue)), done: restored()},
		{name: "deleted", prepare: heartbeats, perNode: deleteNode},
		{name: "registers again", perNode: register, done: restored()},
		{name: "label changed, deleted at once", perNode: editAndDelete, done: recorded(atOnceValue)},
		{name: "registers again, webhook down", prepare: stopWebhook, perNode: register, done: restored()},
		{name: "deleted, webhook down", prepare: heartbeats, perNode: deleteNode},
		{name: "registers again, webhook up", prepare: startWebhook, perNode: register, done: restored()},
		{name: "protected label added", perNode: setLabel(protectedLabel, ptr.To("")), done: recorded(protectedLabel)},
		{name: "deleted before any heartbeat", perNode: deleteNode},
		{name: "registers again, protected label deferred", perNode: register, done: restored(protectedLabel)},
		{name: "new Node registers", fresh: true, perNode: register},
		{name: "new Node is labeled", fresh: true, perNode: addLabels, done: recorded(lastKeptValue)},
	}
}

// withoutNodekeep registers Nodes and gives them labels, and only then installs nodekeep.
func withoutNodekeep(ctx context.Context, s *side, nodes []string) {
	s.Use(ctx, bed.Variant{})
	for _, node := range nodes {
		require.NoError(s, register(ctx, s, node))
		require.NoError(s, addLabels(ctx, s, node))
	}
	s.start(ctx)
}

// heartbeats make the Nodes newer than what was last recorded of them, as nearly all Nodes are that are deleted.
func heartbeats(ctx context.Context, s *side, nodes []string) {
	for _, node := range nodes {
		require.NoError(s, s.Heartbeat(ctx, node))
	}
}

func startCapture(ctx context.Context, s *side) { s.capture = s.StartCapture(ctx, "") }

func stopWebhook(_ context.Context, s *side, _ []string) { s.webhook.Stop() }

func startWebhook(ctx context.Context, s *side, _ []string) { s.start(ctx) }

func heartbeat(ctx context.Context, s *side, node string) error { return s.Heartbeat(ctx, node) }

// setLabel sets a label, or removes it where there is no value.
func setLabel(key string, value *string) func(context.Context, *side, string) error {
	return func(ctx context.Context, s *side, node string) error {
		return s.SetLabels(ctx, node, map[string]*string{key: value})
	}
}

func taint(ctx context.Context, s *side, node string) error {
	return s.Taint(ctx, node, corev1.Taint{Key: maintenance, Value: "true", Effect: corev1.TaintEffectNoSchedule})
}

func deleteNode(ctx context.Context, s *side, node string) error { return s.DeleteNode(ctx, node) }

func register(ctx context.Context, s *side, node string) error {
	_, err := s.Register(ctx, node)
	return err
}

// addLabels gives a Node the labels of bed.Kept.
func addLabels(ctx context.Context, s *side, node string) error {
	labels := map[string]*string{}
	for key, value := range bed.Kept() {
		labels[key] = &value
	}
	return s.SetLabels(ctx, node, labels)
}

// editAndDelete leaves capture no time between the two.
func editAndDelete(ctx context.Context, s *side, node string) error {
	if err := s.Label(ctx, node, changedLabel, atOnceValue); err != nil {
		return err
	}
	return deleteNode(ctx, s, node)
}

// recorded reports whether a text is in the record.
func recorded(text string) condition {
	return func(ctx context.Context, s *side, node string) bool {
		return strings.Contains(s.RecordText(ctx, node), text)
	}
}

// restored reports whether the Node has no gate, and the labels and taints that the events have left on it. It must also have the further labels.
func restored(further ...string) condition {
	want := bed.Kept()
	want[editedLabel], want[ruleLabel] = editedValue, ruleValue
	delete(want, removedLabel)
	for _, key := range further {
		want[key] = ""
	}
	return func(ctx context.Context, s *side, name string) bool {
		node, err := s.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false
		}
		require.NoError(s, err)
		for _, key := range []string{maintenance, ruleLabel} {
			if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }) {
				return false
			}
		}
		_, removed := node.Labels[removedLabel]
		return !removed && !harness.Gated(node) && harness.HasAll(node.Labels, want)
	}
}
