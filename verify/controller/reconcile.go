package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// errNoTurn is returned for a Node that waits for its turn to start a worker Pod. [Controller.grantTurns] queues it then.
var errNoTurn = errors.New("not this Node's turn")

// reconcile works on one Node: what was observed, what is next, and one write. What the write changes arrives by the watch, and with it the next turn.
func (c *Controller) reconcile(ctx context.Context, name string) error {
	profiles := c.Profiles()
	n, seen, err := c.observe(ctx, name, profiles)
	if err != nil && !errors.Is(err, errLog) {
		return c.shown(ctx, n, err)
	}
	cluster := c.Cluster
	cluster.OutageUntil = c.standing.outageUntil(c.Now())
	action := verify.Plan(seen, profiles, cluster, c.Now())
	c.standing.set(name, n, action, seen.Refused != "" && action.Acts())
	if n != nil && c.standing.isClosed(name) {
		c.memory.wait(n.uid, action.Diagnosis.Cause, c.Now())
	}
	if !c.Leading() {
		return nil
	}
	if action.Operation != verify.DoStart {
		c.starting(func(starts *verify.Starts) { starts.Leave(name) })
	}
	requeue := action.Requeue
	if err != nil { // the log is read again with a growing pause
		requeue = action.Due
	}
	if !requeue.IsZero() {
		c.queue.AddAfter(name, max(requeue.Sub(c.Now()), firstRetry))
	}
	if acted := c.act(ctx, n, action, profiles); acted != nil {
		err = acted
	}
	return c.shown(ctx, n, err)
}

// act takes the step that was planned.
func (c *Controller) act(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	switch action.Operation {
	case verify.DoStart:
		return c.start(ctx, n, action)
	case verify.DoControl:
		c.controls.wants(action.Profile.Name, action.ControlSince)
		c.queue.Add(controlWork + action.Profile.Name)
	case verify.DoDelete:
		return c.deletePod(ctx, action)
	case verify.DoRecord:
		return c.record(ctx, n, action, profiles)
	case verify.DoRemove:
		return c.remove(ctx, n, action, profiles)
	case verify.DoRecheck:
		return c.recheck(ctx, n, action, profiles)
	case verify.DoOpen, verify.DoFree, verify.DoClose, verify.DoHold, verify.DoUnhold, verify.DoNote, verify.DoReport, verify.DoForget:
		if err := c.patchNode(ctx, n, action, profiles); err != nil {
			return err
		}
		c.report(n, action)
		if action.Operation == verify.DoReport { // also if an admission policy drops the annotation that ends the attempt
			return c.deletePod(ctx, action)
		}
	case verify.DoShow:
		if err := c.patchStatus(ctx, n, action.Show); err != nil {
			return err
		}
		c.reportWaits(n, action.Profile, action.Show)
	case verify.DoNothing, verify.DoWait:
		if action.Braked {
			c.reportBraked(n, action)
		}
	}
	return nil
}

// A refusal is shown once the API server has refused a step so often in a row. Where it may only be in trouble itself, it is shown after this time.
const (
	refusedAfter = 5
	troubled     = time.Minute
)

// shown returns the error of a step. Where the API server refuses it again and again, the Node shows it. Without that, nothing would be seen of a
// missing right, a quota, or an admission policy or webhook that denies.
func (c *Controller) shown(ctx context.Context, n *node, err error) error {
	if n == nil || n.full == nil || !c.standing.isClosed(n.name) {
		return err
	}
	if err == nil {
		c.memory.change(n.uid, func(entry *remembered) { entry.failing, entry.refused = time.Time{}, "" })
		return nil
	}
	final, ok := refusal(err)
	if !ok {
		return err
	}
	now := c.Now()
	c.memory.change(n.uid, func(entry *remembered) {
		if entry.failing.IsZero() {
			entry.failing = now
		}
	})
	entry := c.memory.get(n.uid)
	if lasts := now.Sub(entry.failing) >= troubled; !lasts && (!final || c.queue.NumRequeues(n.name)+1 < refusedAfter) {
		return err
	}
	diagnosis := verify.Diagnosis{Cause: verify.CauseRefused, Detail: verify.Shorten(podNames.ReplaceAllString(err.Error(), "$1"))}
	c.memory.change(n.uid, func(entry *remembered) { entry.refused = diagnosis.Detail })
	c.standing.count(n.name, diagnosis.Cause)
	show, differs := diagnosis.Shown(n.full, verify.ParseProgress(n.full.Annotation).Tried())
	if equal := show.Reason == n.full.Verified.Reason; !differs || equal && now.Before(entry.shown.Add(troubled)) {
		return err
	}
	if denied := c.patchStatus(ctx, n, show); denied == nil {
		profile, _ := c.Profiles().Match(n.full.Labels)
		c.reportWaits(n, profile, show)
	} else if !errors.Is(denied, remove.ErrChanged) {
		c.Logger.Warn("the condition of a node cannot be written", "node", n.name, "error", denied)
	}
	return err
}

// podNames are the names that this process makes up, of which each try has another one.
var podNames = regexp.MustCompile("(" + verify.PodPrefix + "|" + verify.ControlPrefix + ")[a-z0-9]{26}")

// refusal reports whether the API server answered that a step cannot be taken. The answer is not final where the server may only be in trouble. Other
// errors end by themselves, or nothing can be shown.
func refusal(err error) (final, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) {
		return false, false
	}
	return status.Status().Code < http.StatusInternalServerError, true
}

// report shows what was written to a Node.
func (c *Controller) report(n *node, action verify.Action) {
	switch action.Operation {
	case verify.DoOpen:
		c.reportVerified(n, action)
	case verify.DoFree, verify.DoClose:
		c.reportEnded(n, action)
	case verify.DoReport:
		c.reportPassed(n, action)
	case verify.DoForget:
		c.Logger.Info("the profile of a node no longer reports", "node", n.name)
	case verify.DoHold, verify.DoUnhold:
		c.Logger.Info("node may reboot", "node", n.name, "do", action.Operation, "reason", action.Diagnosis.Detail)
	case verify.DoNote:
		// Else a policy that drops the annotation would keep the Node from being checked.
		c.memory.change(n.uid, func(entry *remembered) { entry.opened, entry.served = false, n.full.Request })
		c.Logger.Info("noted on the node", "node", n.name, "reason", action.Diagnosis.String())
	}
}

// record keeps the report of an attempt that did not pass, and ends the attempt.
func (c *Controller) record(ctx context.Context, n *node, action verify.Action, profiles verify.Profiles) error {
	held := action.Progress.RemovalHeld
	if saw := action.Saw(); saw != "" {
		c.noteBrake(ctx, action.Profile, saw)
	}
	if err := c.keepReport(ctx, action.Report(n.full)); err != nil { // first, since the annotation ends the attempt
		return err
	}
	if err := c.patchNode(ctx, n, action, profiles); err != nil {
		return err
	}
	c.reportAttempt(n, action)
	if action.Profile.ReportsOnly() { // as above
		return c.deletePod(ctx, action)
	}
	if held != nil && action.Judged.Verdict == verify.VerdictFailed {
		c.reportHeld(n, action)
	}
	return nil
}

// observe returns what is known of a Node. With [errLog] only the log of a worker Pod is unknown, so that a deadline still counts. Only a Node that may
// start a worker Pod costs API calls, and only the leader makes them.
func (c *Controller) observe(ctx context.Context, name string, profiles verify.Profiles) (n *node, seen verify.Observed, err error) {
	seen.Pods = c.podsOn(name)
	object, ok, err := c.nodes.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil, seen, err
	}
	n, _ = object.(*node)
	held := len(profiles.ClosingTaints(n.taints)) > 0
	if n.full == nil && held && c.Leading() { // the watch brought it under another policy
		if n, err = c.readNode(ctx, n); err != nil || n == nil {
			return nil, verify.Observed{}, err
		}
		held = len(profiles.ClosingTaints(n.taints)) > 0
	}
	seen.Served = c.memory.get(n.uid).served
	seen.Node = n.planned()
	profile, selected := profiles.Match(seen.Node.Labels)
	if !held && (n.reports || profile.ReportsOnly()) {
		return c.observeOpen(ctx, n, seen, profiles)
	}
	if len(seen.Pods) == 0 && !held {
		c.memory.reset(n.uid)
	}
	if !held {
		if selected && n.full != nil {
			seen.Room = new(c.standing.room(n, profile.Name, c.Now()))
		}
		return n, seen, nil
	}
	c.memory.hold(n.uid, c.Now()) // the policy may have changed since the watch brought the Node
	return c.observeAttempt(ctx, n, seen, profiles)
}

// observeAttempt is observe for a Node that may be checked.
func (c *Controller) observeAttempt(ctx context.Context, n *node, seen verify.Observed, profiles verify.Profiles) (_ *node, _ verify.Observed, err error) {
	entry := c.memory.get(n.uid)
	seen.Held, seen.Started, seen.Worker, seen.Opened, seen.Cold = entry.closedSince, entry.started, entry.worker, entry.opened, c.standing.isCold()
	seen.Waits, seen.Refused, seen.Shown, seen.Answers, seen.Hurried = entry.waits, entry.refused, entry.shown, entry.answers, entry.hurried
	profile, selected := profiles.Match(seen.Node.Labels)
	if selected {
		seen.Control = c.controlOf(profile, n.name)
	}
	if (profile.Removes() || profile.ReportsOnly()) && len(seen.Pods) > 0 {
		seen.Control.Passed = c.witnesses.last(c, profile.Name, n.name, seen.Control.Witnesses())
	}
	for i := range seen.Pods {
		if seen.Pods[i].UID == entry.worker.UID && entry.skipped != "" {
			seen.Pods[i].Skipped = strings.Split(entry.skipped, ",")
		}
	}
	if selected && c.Leading() {
		for i := range seen.Pods {
			if err := c.readLog(ctx, &seen.Pods[i], profile); err != nil {
				return n, seen, err
			}
		}
	}
	if !selected || len(seen.Pods) > 0 || !c.Leading() || !seen.Node.NeedsLookups(c.Cluster.Gate) || profile.ReportsOnly() && !c.isTurn(n.name) {
		return n, seen, nil
	}
	if len(profile.Wait.DaemonSets) > 0 {
		if seen.DaemonSets, err = c.lookups.daemonSets(ctx, profile.Wait.DaemonSets, seen.Node); err != nil {
			return n, verify.Observed{}, err
		}
	}
	if seen.Cold {
		if seen.Services, err = c.lookups.backings(ctx, profile, c.Cluster.DNS, c.nodes); err != nil {
			return n, verify.Observed{}, err
		}
	}
	return n, seen, nil
}

// planned returns what the plan reads.
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

// podsOn returns what looks like worker Pods on a Node, the oldest first.
func (c *Controller) podsOn(name string) (pods []verify.Pod) {
	objects, err := c.pods.GetIndexer().ByIndex(byNode, name)
	if err != nil {
		panic(err) // there is no such index
	}
	for _, object := range objects {
		pods = append(pods, object.(*pod).Pod)
	}
	slices.SortFunc(pods, func(a, b verify.Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
	})
	return pods
}

// start creates the worker Pod when it is the Node's turn; until then the Node waits in line.
func (c *Controller) start(ctx context.Context, n *node, action verify.Action) error {
	name, turn := podName(verify.PodPrefix), false
	c.starting(func(starts *verify.Starts) {
		if turn = starts.Take(n.name, name); !turn {
			starts.Want(n.name, action.Turn())
		}
	})
	if !turn {
		return errNoTurn
	}
	uid, err := c.memory.creates(n.uid, action.Attempt, action.Skip, func() (string, error) { return c.createPod(ctx, name, n.full, action) })
	c.starting(func(starts *verify.Starts) { starts.Created(name, uid, c.Now()) })
	if err != nil {
		return fmt.Errorf("create worker Pod of node %q: %w", n.name, err)
	}
	c.memory.change(n.uid, func(entry *remembered) {
		entry.started = c.Now()
		if action.Progress.Unanswered(entry.answers) {
			entry.hurried = entry.started
		}
		entry.answers = action.Progress.Asked
	})
	return nil
}

// podName returns a name that no other client can know before. A client that took the name could keep a Node from being verified.
func podName(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// createPod creates the worker Pod or control Pod of an action on a Node.
func (c *Controller) createPod(ctx context.Context, name string, node *verify.Node, action verify.Action) (uid string, err error) {
	task, err := c.lookups.task(ctx, node.Name, action, c.Cluster.DNS)
	if err != nil {
		return "", err
	}
	created, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, workerPod(c.Options, name, node, action, task), metav1.CreateOptions{FieldManager: verify.Manager})
	if err != nil {
		return "", err
	}
	message := "worker pod created"
	if action.Operation == verify.DoControl {
		message = "control pod created"
	}
	if strings.HasPrefix(name, verify.TrialPrefix) {
		message = "trial pod created"
	}
	c.Logger.Info(message, "node", node.Name, "pod", name, "profile", action.Profile.Name,
		"attempt", action.Progress.Attempts+1, "skipped", action.Skip)
	return string(created.UID), nil
}

// deletePod deletes exactly the worker Pod that was observed.
func (c *Controller) deletePod(ctx context.Context, action verify.Action) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID(action.Pod.UID))}}
	if action.Force {
		options.GracePeriodSeconds = new(int64(0))
	}
	err := c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, action.Pod.Name, options)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another object has the name: the watch will say so
		return nil
	case err != nil:
		return fmt.Errorf("delete worker Pod %q: %w", action.Pod.Name, err)
	}
	c.Logger.Info("worker pod deleted", "pod", action.Pod.Name, "reason", action.Diagnosis.Detail, "forced", action.Force)
	return nil
}
