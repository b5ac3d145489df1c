package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/cluster"
	"nodekeep.dev/nodekeep/test/install"
)

// What the story is about.
const (
	node    = "worker-1"
	worker  = "node-role.kubernetes.io/worker"
	patient = 30 * time.Second // how long the story waits for anything
)

// story is told to out, step by step; what a person would type is run with the real kubectl.
type story struct {
	out      io.Writer
	nodekeep *install.Installation
	kubelet  *kubernetes.Clientset
	steps    int
}

// tell starts a control plane, tells the story and stops everything.
func tell(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "nodekeep-demo-")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Starting etcd, kube-apiserver (NodeRestriction on) and nodekeep on loopback ...")
	started := time.Now()
	control, err := cluster.Start(ctx, cluster.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, control.Stop())
		if err != nil {
			fmt.Fprintln(out, "logs are kept in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	nodekeep, err := install.Running(ctx, control)
	if err != nil {
		return err
	}
	kubelet, err := kubernetes.NewForConfig(control.Kubelet(node))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "up after %s\n", time.Since(started).Round(100*time.Millisecond))
	s := &story{out: out, nodekeep: nodekeep, kubelet: kubelet}
	return s.run(ctx)
}

func (s *story) run(ctx context.Context) error {
	s.step("A new Node registers, as its kubelet does it. Nothing is remembered of it.")
	if _, err := s.register(ctx); err != nil {
		return err
	}

	s.step("An operator labels it. Kubelets may not set the second label on themselves.")
	if err := s.kubectl(ctx, "label", "node", node, "dedicated=ci", worker+"="); err != nil {
		return err
	}
	if err := s.waitRecord(ctx); err != nil {
		return err
	}

	s.step("capture has recorded that, in a ConfigMap of the Node's own.")
	if err := s.kubectl(ctx, "-n", install.Namespace, "get", "configmap", store.Name(node), "-o", `go-template={{index .data "record.json"}}{{"\n"}}`); err != nil {
		return err
	}

	s.step("The Node is deleted: maintenance, autoscaling, repair. Kubernetes forgets its labels.")
	if err := s.kubectl(ctx, "delete", "node", node); err != nil {
		return err
	}

	s.step("It registers again, as its kubelet does it. This is what the CREATE returns:")
	back, err := s.register(ctx)
	if err != nil {
		return err
	}
	if back.Labels["dedicated"] != "ci" || !policy.DefaultGate.Holds(back.Spec.Taints) {
		return errors.New("the label or the gate is missing in the CREATE's answer")
	}
	s.say("dedicated=ci is in the very object that was created: nobody ever saw this Node without it.")
	s.say("%s would have made the API server reject the kubelet's registration,", worker)
	s.say("so it waits behind the gate: the taint %s keeps workloads off.", string(policy.DefaultGate))

	s.step("capture gives the protected label back under its own identity, and then lifts the gate.")
	if err := s.waitComplete(ctx, time.Now()); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "node", node, "-L", "dedicated,"+worker); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "events", "--field-selector", "involvedObject.name="+node,
		"-o", "custom-columns=REASON:.reason,MESSAGE:.message"); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "\nTo try it yourself: `make up`, then the walk-through in README.md.")
	return nil
}

func (s *story) step(what string) {
	s.steps++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.steps, what)
}

func (s *story) say(format string, arguments ...any) {
	fmt.Fprintf(s.out, "   "+format+"\n", arguments...)
}

// kubectl runs and shows what an operator would type.
func (s *story) kubectl(ctx context.Context, args ...string) error {
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = arg
		if strings.ContainsAny(arg, " {}\"") {
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

// register creates the Node with the kubelet's own identity and shows what came back.
func (s *story) register(ctx context.Context) (*corev1.Node, error) {
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
	return created, nil
}

func (s *story) waitRecord(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patient, true, func(ctx context.Context) (bool, error) {
		cm, err := s.nodekeep.Admin.CoreV1().ConfigMaps(install.Namespace).Get(ctx, store.Name(node), metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not there yet
		}
		record, err := store.Decode([]byte(cm.Data[store.DataKey]), node)
		return len(record.Items) == 2, err
	})
}

func (s *story) waitComplete(ctx context.Context, since time.Time) error {
	return wait.PollUntilContextTimeout(ctx, 2*time.Millisecond, patient, true, func(ctx context.Context) (bool, error) {
		seen, err := s.nodekeep.Admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if _, has := seen.Labels[worker]; !has || policy.DefaultGate.On(seen.Spec.Taints) {
			return false, nil
		}
		s.say("done, seen %s after the CREATE's answer", time.Since(since).Round(time.Millisecond))
		return true, nil
	})
}
