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

// What the story is about.
const (
	node    = "worker-1"
	worker  = "node-role.kubernetes.io/worker"
	patient = 30 * time.Second // how long the story waits for anything
)

// The taints of the story; what the API server itself puts on is left out.
const (
	tenant     = "tenant=blue:NoSchedule"           // remembered
	dedicated  = "dedicated=ci:NoSchedule"          // by the rule
	unverified = "node-ready/unverified:NoSchedule" // at registration
	gate       = string(policy.DefaultGate) + ":NoSchedule"
)

// story is told to out, step by step; what a person would type is run with the real kubectl.
type story struct {
	out      io.Writer
	nodekeep *harness.Installation
	kubelet  *kubernetes.Clientset
	steps    int
}

// tell starts a control plane, tells the story and stops everything.
func tell(ctx context.Context, out io.Writer) (err error) {
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
	s := &story{out: out, nodekeep: nodekeep, kubelet: kubelet}
	fmt.Fprintln(out, "\nIts policy file:")
	for line := range strings.Lines(policyFile) {
		s.say("%s", strings.TrimRight(line, "\n"))
	}
	return s.run(ctx)
}

func (s *story) run(ctx context.Context) error {
	for _, act := range []func(context.Context) error{s.arrives, s.isLookedAfter, s.isDeleted, s.comesBack, s.isPutToOtherUse} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out, "\nTo try it yourself: `make up`, then the walk-through in README.md.")
	return nil
}

func (s *story) arrives(ctx context.Context) error {
	s.step("A new Node registers, as its kubelet does it. Nothing is remembered of it.")
	if _, err := s.register(ctx, unverified); err != nil {
		return err
	}

	s.step("A readiness check takes off what the policy has put on at registration.")
	return s.kubectl(ctx, "taint", "node", node, "node-ready/unverified-")
}

func (s *story) isLookedAfter(ctx context.Context) error {
	s.step("An operator taints and labels it. Kubelets may not set the second label on themselves.")
	if err := s.kubectl(ctx, "taint", "node", node, "tenant=blue:NoSchedule"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "label", "node", node, "dedicated=ci", worker+"="); err != nil {
		return err
	}

	s.step("The policy has a rule for dedicated=ci: capture puts the taint on.")
	if err := s.comesToHave(ctx, tenant, dedicated); err != nil {
		return err
	}
	s.say("node-ready/unverified has not come back: it was for the registration.")

	s.step("capture has recorded all that, in a ConfigMap of the Node's own.")
	if err := s.waitRecord(ctx); err != nil {
		return err
	}
	return s.kubectl(ctx, "-n", harness.Namespace, "get", "configmap", store.Name(node), "-o", `go-template={{index .data "record.json"}}{{"\n"}}`)
}

func (s *story) isDeleted(ctx context.Context) error {
	s.step("The Node is deleted: maintenance, autoscaling, repair. Kubernetes forgets its labels and taints.")
	return s.kubectl(ctx, "delete", "node", node)
}

func (s *story) comesBack(ctx context.Context) error {
	s.step("It registers again, as its kubelet does it. This is what the CREATE returns:")
	back, err := s.register(ctx, tenant, dedicated, unverified, gate)
	if err != nil {
		return err
	}
	if back.Labels["dedicated"] != "ci" {
		return errors.New("the label is missing in the CREATE's answer")
	}
	s.say("Label and taint dedicated=ci and the taint tenant=blue are in the very object that was created:")
	s.say("nobody ever saw this Node without them. As every new Node, it has node-ready/unverified too.")
	s.say("%s would have made the API server reject the kubelet's registration,", worker)
	s.say("so it waits behind the gate: the taint %s keeps workloads off.", string(policy.DefaultGate))

	s.step("capture gives the protected label back under its own identity, and then lifts the gate.")
	if err := s.waitComplete(ctx, time.Now()); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "node", node, "-L", "dedicated,"+worker); err != nil {
		return err
	}
	return s.kubectl(ctx, "get", "events", "--field-selector", "involvedObject.name="+node,
		"-o", "custom-columns=REASON:.reason,MESSAGE:.message")
}

func (s *story) isPutToOtherUse(ctx context.Context) error {
	s.step("The readiness check is content, and the label goes: so does the rule's taint, and nothing else.")
	if err := s.kubectl(ctx, "taint", "node", node, "node-ready/unverified-"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "label", "node", node, "dedicated-"); err != nil {
		return err
	}
	return s.comesToHave(ctx, tenant)
}
