package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

func (s *scenario) step(title string) {
	s.steps++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.steps, title)
}

func (s *scenario) say(format string, arguments ...any) {
	fmt.Fprintf(s.out, "   "+format+"\n", arguments...)
}

// kubectl runs a command of an operator, and prints the command and its output.
func (s *scenario) kubectl(ctx context.Context, args ...string) error {
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = arg
		if strings.ContainsAny(arg, " {}[]*\"") {
			shown[i] = "'" + arg + "'"
		}
	}
	s.say("$ kubectl %s", strings.Join(shown, " "))
	out, err := s.nodekeep.Kubectl(ctx, args...)
	for line := range strings.Lines(out) {
		s.say("  %s", strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return nil
}

// create registers the Node with the kubelet's own identity and prints the API server's answer, which must have these taints.
func (s *scenario) create(ctx context.Context, want ...string) (*corev1.Node, error) {
	s.say("POST /api/v1/nodes as system:node:%s, group system:nodes", node)
	started := time.Now()
	created, err := s.kubelet.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node, Labels: map[string]string{corev1.LabelHostname: node, corev1.LabelOSStable: "linux"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("register node %q: %w", node, err)
	}
	s.say("  created in %s", time.Since(started).Round(100*time.Microsecond))
	for _, key := range slices.Sorted(maps.Keys(created.Labels)) {
		s.say("  label %s=%s", key, created.Labels[key])
	}
	for _, taint := range created.Spec.Taints {
		s.say("  taint %s", taint.ToString())
	}
	if got := harness.TaintsOf(created); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		return nil, fmt.Errorf("the CREATE's answer has taints %v instead of %v", got, want)
	}
	return created, nil
}

// waitTaints waits until the Node has these taints and prints them.
func (s *scenario) waitTaints(ctx context.Context, want ...string) error {
	started := time.Now()
	var got []string
	err := wait.PollUntilContextTimeout(ctx, 2*time.Millisecond, patient, true, func(ctx context.Context) (bool, error) {
		seen, err := s.nodekeep.Admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		got = harness.TaintsOf(seen)
		return slices.Equal(got, slices.Sorted(slices.Values(want))), nil
	})
	if err != nil {
		return fmt.Errorf("wait for taints %v, have %v: %w", want, got, err)
	}
	s.say("done, seen %s after kubectl's answer", time.Since(started).Round(time.Millisecond))
	return s.kubectl(ctx, "get", "node", node, "-o", "custom-columns=TAINTS:.spec.taints[*].key")
}

func (s *scenario) waitRecord(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patient, true, func(ctx context.Context) (bool, error) {
		cm, err := s.nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(ctx, store.Name(node), metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not there yet
		}
		record, err := store.Decode([]byte(cm.Data[store.DataKey]), node)
		return len(record.Items()) == 3, err
	})
}

func (s *scenario) waitComplete(ctx context.Context, start time.Time) error {
	return wait.PollUntilContextTimeout(ctx, 2*time.Millisecond, patient, true, func(ctx context.Context) (bool, error) {
		seen, err := s.nodekeep.Admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if _, ok := seen.Labels[worker]; !ok || policy.DefaultGate.Present(seen.Spec.Taints) {
			return false, nil
		}
		s.say("done, seen %s after the CREATE's answer", time.Since(start).Round(time.Millisecond))
		return true, nil
	})
}
