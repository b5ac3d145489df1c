package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/verify/controller"
)

// podsWithOldPolicy returns the Ready Pods of nodekeep that have not read the policy which is in force. The component restricts them; empty: all.
func (c *session) podsWithOldPolicy(ctx context.Context, inForce nodepolicy.InForce, component string) ([]string, error) {
	selector := doctor.PodSelector
	if component != "" {
		selector += "," + doctor.ComponentLabel + "=" + component
	}
	var pods []corev1.Pod
	for pod, err := range cluster.List[*corev1.Pod](ctx, c.Cluster, c.listPodsRight(), c.Client.CoreV1().Pods(c.Namespace), metav1.ListOptions{LabelSelector: selector}) {
		if err != nil {
			return nil, err
		}
		pods = append(pods, *pod)
	}
	return inForce.Behind(pods), nil
}

func (c *session) listPodsRight() doctor.Right {
	return doctor.Right{Verb: "list", Resource: "pods", Namespace: c.Namespace}
}

// warnOldPolicy warns of processes that go by another policy than this command. A caller who may not list the Pods gets a warning only if the status of
// the NodePolicy leaves it open, see [nodepolicy.InForce.Doubtful].
func (c *session) warnOldPolicy(ctx context.Context, inForce nodepolicy.InForce) {
	if inForce.Generation == 0 {
		return
	}
	podsWithOldPolicy, err := c.podsWithOldPolicy(ctx, inForce, "")
	var denied cluster.DeniedError
	switch {
	case err == nil && len(podsWithOldPolicy) > 0:
		c.say("%s", view.OldPolicySentence(inForce, podsWithOldPolicy))
	case errors.As(err, &denied) && inForce.Doubtful():
		c.say("Whether every process has read the policy's generation %d is not known: %s.", inForce.Generation, denied.Missing[0].Denied())
	case err != nil && denied.Missing == nil:
		c.sayUnknown("Which processes have read the policy", err)
	}
}

// errPolicyChanged ends a command whose policy is not the one in force any more.
var errPolicyChanged = errors.New("nothing was changed: the policy has changed since this command read it; run it again")

// policyReadTimeout is how long a command waits until verification controllers have read the policy.
const policyReadTimeout = 30 * time.Second

// awaitPolicyRead waits until verification controllers have read the policy that this command goes by. Otherwise a Node could pass an older
// profile, and the command would report success. Without an answer in time it warns. It also warns where no controller leads.
func (c *session) awaitPolicyRead(ctx context.Context, timeout time.Duration) error {
	c.warnNoVerificationController(ctx)
	if c.inForce.Generation == 0 {
		return nil
	}
	switch podsWithOldPolicy, err := c.podsWithOldPolicy(ctx, c.inForce, verifyComponent); {
	case err != nil:
		c.say("Whether verification controllers have read the policy's generation %d is not known. If not, the Node is checked by the policy of before: %s",
			c.inForce.Generation, firstLine(err))
	case len(podsWithOldPolicy) > 0:
		return c.awaitRead(ctx, podsWithOldPolicy, timeout)
	}
	return nil
}

// firstLine returns what an error says, without what is to be done.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// awaitRead waits until these controllers, which are behind, have read the policy.
func (c *session) awaitRead(ctx context.Context, podsWithOldPolicy []string, timeout time.Duration) error {
	c.say("Waiting up to %s until it is read.", timeout)
	err := wait.PollUntilContextTimeout(ctx, time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		current, err := c.GetPolicyInForce(ctx, c.gate)
		if err == nil && (current.Generation != c.inForce.Generation || current.UID != c.inForce.UID) {
			return false, errPolicyChanged
		}
		if err == nil { // else it is tried again
			var remaining []string
			if remaining, err = c.podsWithOldPolicy(ctx, current, verifyComponent); err == nil {
				podsWithOldPolicy = remaining
			}
		}
		return len(podsWithOldPolicy) == 0, nil
	})
	switch {
	case errors.Is(err, errPolicyChanged), ctx.Err() != nil:
		return err
	case err != nil:
		c.say("%s Until then, the Node is checked by the policy of before.", view.OldPolicySentence(c.inForce, podsWithOldPolicy))
	}
	return nil
}

// warnNoVerificationController says that no controller acts on a request.
func (c *session) warnNoVerificationController(ctx context.Context) {
	c.warnNoLeader(ctx, controller.LeaseName, verifyComponent, "verification controller", "is checked")
}

// doneForCapture is [session.printResult] about what capture is to carry out. It says if no capture runs.
func (c *session) doneForCapture(ctx context.Context, format string, args ...any) error {
	err := c.printResult(format, args...)
	c.warnNoLeader(ctx, capture.LeaseName, captureComponent, "capture", "is carried out")
	return err
}

// The components of Pods.
const (
	captureComponent = "capture"
	verifyComponent  = "verify"
)

// hasReadyPod reports whether a Pod of a component is known to be Ready. A process with --leader-elect=false has no Lease, so its Ready Pod is all that
// shows it.
func (c *session) hasReadyPod(ctx context.Context, component string) bool {
	selector := doctor.PodSelector + "," + doctor.ComponentLabel + "=" + component
	for pod, err := range cluster.List[*corev1.Pod](ctx, c.Cluster, c.listPodsRight(), c.Client.CoreV1().Pods(c.Namespace), metav1.ListOptions{LabelSelector: selector}) {
		if err != nil {
			return false
		}
		if nodepolicy.Ready(pod) {
			return true
		}
	}
	return false
}

// warnNoLeader says that nothing is done, if no process leads by a Lease, and none works without one.
func (c *session) warnNoLeader(ctx context.Context, lease, component, process, undone string) {
	leader, err := c.GetLeadership(ctx, lease, c.Now)
	switch {
	case apierrors.IsNotFound(err):
		if !c.hasReadyPod(ctx, component) {
			c.say("No %s has ever led here, so nothing %s until one does.", process, undone)
		}
	case err != nil:
		c.sayUnknown("Whether a "+process+" runs", c.ExplainError(c.LeaseRight(lease), err))
	case leader.LeaderlessFor() > 0:
		c.say("No %s has led for %s, so nothing %s until one does.", process, leader.LeaderlessFor().Round(time.Second), undone)
	}
}
