package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/verify"
)

// errChanged is the error of a write that was planned for an older state.
var errChanged = errors.New("the object has changed")

// errNoTurn is returned for a Node that waits for its turn to start a worker Pod. [Controller.grantTurns] queues it then.
var errNoTurn = errors.New("not this Node's turn")

// reconcile works on one Node: what was observed, what is next, and one write. What the write changes arrives by the watch, and with it the next turn.
func (c *Controller) reconcile(ctx context.Context, name string) error {
	profiles := c.Profiles()
	n, seen, err := c.observe(ctx, name, profiles)
	if err != nil && !errors.Is(err, errLog) {
		return err
	}
	cluster := c.Cluster
	cluster.OutageUntil = c.outage.until(c.Now())
	action := verify.Plan(seen, profiles, cluster, c.Now())
	c.standing.set(name, n, action)
	if !c.Leading() {
		return nil
	}
	if action.Do != verify.DoStart {
		c.starting(func(starts *verify.Starts) { starts.Leave(name) })
	}
	again := action.Again
	if err != nil { // the log is read again with a growing pause
		again = action.Due
	}
	if !again.IsZero() {
		c.queue.AddAfter(name, max(again.Sub(c.Now()), firstRetry))
	}
	switch action.Do {
	case verify.DoStart:
		return c.start(ctx, n, action)
	case verify.DoControl:
		c.want(action.Profile.Name)
	case verify.DoDelete:
		return c.deletePod(ctx, name, action)
	case verify.DoRecord:
		return c.record(ctx, n, action, profiles)
	case verify.DoRemove:
		return c.remove(ctx, n, action, profiles)
	case verify.DoOpen:
		if err := c.patchNode(ctx, n, action, profiles); err != nil {
			return err
		}
		c.reportVerified(n, action)
	case verify.DoFree, verify.DoClose:
		if err := c.patchNode(ctx, n, action, profiles); err != nil {
			return err
		}
		c.reportEnded(n, action)
	case verify.DoHold, verify.DoUnhold:
		if err := c.patchNode(ctx, n, action, profiles); err != nil {
			return err
		}
		c.Logger.Info("node may reboot", "node", name, "do", action.Do, "reason", action.Reason)
	case verify.DoNote:
		if err := c.patchNode(ctx, n, action, profiles); err != nil {
			return err
		}
		c.memory.change(n.uid, func(one *remembered) { one.opened = false }) // else a policy that drops the annotation would keep the Node from being checked
		c.Logger.Info("the taint was added to a node that was open; it is never removed", "node", name)
	case verify.DoShow:
		return c.patchStatus(ctx, n, action)
	case verify.DoNothing, verify.DoWait:
		return err
	}
	return nil
}

// record keeps the report of an attempt that did not pass, and ends the attempt.
func (c *Controller) record(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	held := action.Progress.RemovalHeld
	if held != nil {
		c.noteBrake(ctx, action.Profile, held.Reason)
	} else if action.Judged.Verdict == verify.VerdictShared {
		c.noteBrake(ctx, action.Profile, verify.BrakeSharedFailure)
	}
	if err := c.keepReport(ctx, action.Report(n.full)); err != nil { // first, since the annotation ends the attempt
		return err
	}
	if err := c.patchNode(ctx, n, action, profiles); err != nil {
		return err
	}
	c.reportAttempt(n, action)
	if held != nil && action.Judged.Verdict == verify.VerdictFailed {
		c.reportHeld(n, action)
	}
	return nil
}

// observe is what is known of a Node. With [errLog] only the log of a worker Pod is unknown, so that a deadline still counts. Only a Node that may
// start a worker Pod costs API calls, and only the leader makes them.
func (c *Controller) observe(ctx context.Context, name string, profiles verify.Profiles) (n *node, seen verify.Observed, err error) {
	seen.Pods = c.podsOn(name)
	object, ok, err := c.nodes.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil, seen, err
	}
	n, _ = object.(*node)
	held := len(profiles.HeldBy(n.taints)) > 0
	if n.full == nil && held && c.Leading() { // the watch brought it under another policy
		if n, err = c.readNode(ctx, n); err != nil || n == nil {
			return nil, verify.Observed{}, err
		}
		held = len(profiles.HeldBy(n.taints)) > 0
	}
	if len(seen.Pods) == 0 {
		c.memory.settled(n.uid, held)
	}
	if seen.Node = n.planned(); !held {
		return n, seen, nil
	}
	c.memory.hold(n.uid, c.Now()) // the policy may have changed since the watch brought the Node
	own := c.memory.of(n.uid)
	seen.Held, seen.Started, seen.Interrupted, seen.Opened, seen.Cold = own.held, own.started, own.interrupted, own.opened, c.takers.Load() == 0
	profile, selected := profiles.For(seen.Node.Labels)
	if selected {
		seen.Control = c.controlOf(profile)
	}
	if profile.Removes() && len(seen.Pods) > 0 {
		seen.Control.Passed = c.lastPassed(profile.Name)
	}
	if selected && c.Leading() {
		for i := range seen.Pods {
			if err := c.readLog(ctx, &seen.Pods[i], profile); err != nil {
				return n, seen, err
			}
		}
	}
	if !selected || len(seen.Pods) > 0 || !c.Leading() || !seen.Node.NeedsLookups(c.Cluster.Gate) {
		return n, seen, nil
	}
	if len(profile.Wait.DaemonSets) > 0 {
		if seen.DaemonSets, err = c.lookups.daemonSets(ctx, profile.Wait.DaemonSets, name); err != nil {
			return nil, verify.Observed{}, err
		}
	}
	if seen.Cold {
		if seen.Services, err = c.lookups.readyCounts(ctx, profile, c.Cluster.DNS); err != nil {
			return nil, verify.Observed{}, err
		}
	}
	return n, seen, nil
}

// planned is what the plan reads.
func (n *node) planned() *verify.Node {
	if n.full != nil {
		return n.full
	}
	return &verify.Node{Name: n.name, UID: n.uid, Taints: n.taints}
}

// readNode reads a Node live; nil: it is deleted, or another object, and the watch will say so.
func (c *Controller) readNode(ctx context.Context, slim *node) (*node, error) {
	object, err := c.Client.CoreV1().Nodes().Get(ctx, slim.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(object.UID) != slim.uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %q: %w", slim.name, err)
	}
	full := verify.NodeOf(object)
	return &node{name: slim.name, uid: slim.uid, version: object.ResourceVersion, taints: object.Spec.Taints, full: &full}, nil
}

// podsOn are the worker Pods on a Node, the oldest first.
func (c *Controller) podsOn(name string) (pods []verify.Pod) {
	objects, err := c.pods.GetIndexer().ByIndex(byNode, name)
	if err != nil {
		panic(err) // there is no such index
	}
	for _, object := range objects {
		if p, ok := object.(*pod); ok {
			pods = append(pods, p.Pod)
		}
	}
	slices.SortFunc(pods, func(a, b verify.Pod) int { return a.Created.Compare(b.Created) })
	return pods
}

// start creates the worker Pod when it is the Node's turn; until then the Node waits in line.
func (c *Controller) start(ctx context.Context, n *node, action verify.Action) error {
	turn := false
	c.starting(func(starts *verify.Starts) {
		if turn = starts.Take(n.name, action.PodName); !turn {
			starts.Want(n.name, action.First)
		}
	})
	if !turn {
		return errNoTurn
	}
	uid, err := c.createPod(ctx, n, action)
	c.starting(func(starts *verify.Starts) { starts.Created(action.PodName, uid, c.Now()) })
	return err
}

func (c *Controller) createPod(ctx context.Context, n *node, action verify.Action) (uid string, err error) {
	task, err := c.lookups.task(ctx, *n.full, action, c.Cluster.DNS)
	if err != nil {
		return "", err
	}
	wanted, err := workerPod(c.Namespace, image{c.Image, c.Pull}, *n.full, action, task)
	if err != nil {
		return "", err
	}
	pods := c.Client.CoreV1().Pods(c.Namespace)
	created, err := pods.Create(ctx, wanted, metav1.CreateOptions{FieldManager: verify.Manager})
	if apierrors.IsAlreadyExists(err) {
		if uid, err = c.existing(ctx, n.name, action.PodName, func(p *pod) bool { return p.node == n.name }); err == nil {
			c.memory.change(n.uid, func(one *remembered) { one.started = c.Now() })
		}
		return uid, err
	}
	// A quota, Pod Security, another webhook, or the image's name: an operator has to see it, once for all Nodes.
	if (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && c.told.due("create/"+action.Profile.Hash, n.uid, action, c.Now()) {
		c.event(n, corev1.EventTypeWarning, VerificationFailed, "The worker Pod cannot be created: %v"+othersToo, err)
	}
	if err != nil {
		return "", fmt.Errorf("create worker Pod of node %q: %w", n.name, err)
	}
	c.memory.change(n.uid, func(one *remembered) { one.started = c.Now() })
	c.Logger.Info("worker pod created", "node", n.name, "pod", action.PodName, "attempt", action.Progress.Attempts+1, "skipped", action.Skip)
	return string(created.UID), nil
}

// existing is called when a Pod has the name already. Another process may have started the attempt. A kubelet can also create a mirror Pod of that
// name to keep the Node from being verified. A Pod that is not the attempt's is deleted.
func (c *Controller) existing(ctx context.Context, node, name string, ours func(*pod) bool) (uid string, err error) {
	pods := c.Client.CoreV1().Pods(c.Namespace)
	object, err := pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", errChanged
	}
	if err != nil {
		return "", fmt.Errorf("read worker Pod of node %q: %w", node, err)
	}
	if ours(podOf(object)) {
		return string(object.UID), nil
	}
	c.Logger.Warn("a pod that is no worker pod has the name of one; it is deleted", "node", node, "pod", object.Name, "podNode", object.Spec.NodeName)
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: &metav1.Preconditions{UID: &object.UID}}
	if err := pods.Delete(ctx, object.Name, options); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("delete pod %q, which has the name of the worker Pod of node %q: %w", object.Name, node, err)
	}
	return "", errChanged
}

// deletePod deletes exactly the worker Pod that was observed.
func (c *Controller) deletePod(ctx context.Context, name string, action verify.Action) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID(action.Pod.UID))}}
	if action.Force {
		options.GracePeriodSeconds = ptr.To(int64(0))
	}
	err := c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, action.Pod.Name, options)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another object has the name: the watch will say so
		return nil
	case err != nil:
		return fmt.Errorf("delete worker Pod %q of node %q: %w", action.Pod.Name, name, err)
	}
	c.Logger.Info("worker pod deleted", "node", name, "pod", action.Pod.Name, "reason", action.Reason, "forced", action.Force)
	return nil
}

func (c *Controller) patchNode(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	body, err := nodePatch(n, action, profiles)
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: verify.Manager})
	return patched(n.name, err)
}

func (c *Controller) patchStatus(ctx context.Context, n *node, action verify.Action) error {
	body, err := statusPatch(n, action.Show, c.Now())
	if err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: verify.Manager}, "status")
	return patched(n.name, err)
}

// patched is what came of a patch with a uid and a resourceVersion.
func patched(name string, err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return errChanged
	case apierrors.IsInvalid(err) && isUIDMismatch(err):
		return errChanged
	}
	return fmt.Errorf("patch node %q: %w", name, err)
}

// isUIDMismatch reports whether the API server refuses a patch because another Node has the name now.
func isUIDMismatch(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}
