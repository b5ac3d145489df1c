package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// The Node and the label of the scenario.
const (
	node    = "worker-1"
	worker  = "node-role.kubernetes.io/worker"
	patient = 2 * time.Minute // how long the scenario waits for anything
)

// The taints of the scenario, without those that the API server adds.
const (
	tenant     = "tenant=blue:NoSchedule"           // recorded
	dedicated  = "dedicated=ci:NoSchedule"          // by the rule
	unverified = "node-ready/unverified:NoSchedule" // at registration
	gate       = string(policy.DefaultGate) + ":NoSchedule"
)

// scenario prints its steps to out. It runs the commands of an operator with the real kubectl.
type scenario struct {
	out      io.Writer
	nodekeep *harness.Installation
	kubelet  *kubernetes.Clientset
	steps    int
}

// runScenario starts a control plane, runs the scenario and stops everything.
func runScenario(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "nodekeep-demo-")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Starting etcd and kube-apiserver (NodeRestriction on) on loopback, and nodekeep on them.")
	started := time.Now()
	control, err := harness.StartCluster(ctx, harness.Options{Dir: dir})
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
	nodekeep, err := installed(ctx, out, control)
	if err != nil {
		return err
	}
	kubelet, err := kubernetes.NewForConfig(control.Kubelet(node))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "up after %s\n", time.Since(started).Round(100*time.Millisecond))
	s := &scenario{out: out, nodekeep: nodekeep, kubelet: kubelet}
	fmt.Fprintln(out, "\nIts policy:")
	for line := range strings.Lines(manifest) {
		s.say("%s", strings.TrimRight(line, "\n"))
	}
	return s.run(ctx)
}

func (s *scenario) run(ctx context.Context) error {
	for _, act := range []func(context.Context) error{s.register, s.label, s.delete, s.registerAgain, s.unlabel} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out, "\nTo try it yourself: `make up`, then docs/walkthrough.md.")
	return nil
}

func (s *scenario) register(ctx context.Context) error {
	s.step("A new Node registers, as its kubelet does it. It has no record.")
	if _, err := s.create(ctx, unverified); err != nil {
		return err
	}

	s.step("An operator has checked it, and removes the registration taint of the policy.")
	return s.kubectl(ctx, "taint", "node", node, "node-ready/unverified-")
}

func (s *scenario) label(ctx context.Context) error {
	s.step("An operator taints and labels it. Kubelets may not set the second label on themselves.")
	if err := s.kubectl(ctx, "taint", "node", node, "tenant=blue:NoSchedule"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "label", "node", node, "dedicated=ci", worker+"="); err != nil {
		return err
	}

	s.step("The policy has a rule for dedicated=ci: capture adds the taint.")
	if err := s.waitTaints(ctx, tenant, dedicated); err != nil {
		return err
	}
	s.say("node-ready/unverified is not added again: it is for registrations.")

	s.step("capture has recorded the labels and taints in a ConfigMap for this Node.")
	if err := s.waitRecord(ctx); err != nil {
		return err
	}
	return s.kubectl(ctx, "-n", harness.Namespace, "get", "configmap", store.Name(node), "-o", `go-template={{index .data "record.json"}}{{"\n"}}`)
}

func (s *scenario) delete(ctx context.Context) error {
	s.step("The Node is deleted: maintenance, autoscaling, repair. Kubernetes forgets its labels and taints.")
	return s.kubectl(ctx, "delete", "node", node)
}

func (s *scenario) registerAgain(ctx context.Context) error {
	s.step("It registers again, as its kubelet does it. This is what the CREATE returns:")
	returned, err := s.create(ctx, tenant, dedicated, unverified, gate)
	if err != nil {
		return err
	}
	if returned.Labels["dedicated"] != "ci" {
		return errors.New("the label is missing in the CREATE's answer")
	}
	s.say("Label and taint dedicated=ci and the taint tenant=blue are in the object that was created:")
	s.say("no client ever saw this Node without them. As every new Node, it has node-ready/unverified too.")
	s.say("%s would have made the API server reject the kubelet's registration,", worker)
	s.say("so it waits behind the gate: the taint %s keeps workloads off.", string(policy.DefaultGate))

	s.step("capture adds the protected label with its own account. Then it restores who owns it, and removes the gate.")
	if err := s.waitComplete(ctx, time.Now()); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "node", node, "-L", "dedicated,"+worker); err != nil {
		return err
	}
	return s.kubectl(ctx, "get", "events", "--field-selector", "involvedObject.name="+node,
		"-o", "custom-columns=REASON:.reason,MESSAGE:.message")
}

func (s *scenario) unlabel(ctx context.Context) error {
	s.step("An operator removes the registration taint and the label. capture removes the rule's taint, and nothing else.")
	if err := s.kubectl(ctx, "taint", "node", node, "node-ready/unverified-"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "label", "node", node, "dedicated-"); err != nil {
		return err
	}
	return s.waitTaints(ctx, tenant)
}
