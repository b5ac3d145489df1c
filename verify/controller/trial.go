package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"nodekeep.dev/nodekeep/verify"
)

// trialWork begins the key in the queue of the work on the trial of a profile; its name follows. No Node can have such a name.
const trialWork = "/trial/"

// Bounds of what is read to find out whether a profile is proved, and where to try it.
const (
	nodesAtOnce = 500
	pagesRead   = 10 // once a Node is found to try on: a further trial does no harm
)

// trials are what this process knows of the trials of profiles, by name.
type trials struct {
	mu    sync.Mutex
	known map[string]trial
}

// trial is what is known of the checks of a profile.
type trial struct {
	hash   string // of the checks
	proved bool
	failed int       // trials that did not pass
	next   time.Time // when to look again
}

// find returns what is known of the checks that a profile has now.
func (t *trials) find(profile verify.CompiledProfile) (known trial, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known = t.known[profile.Name]
	return known, known.hash == profile.Hash
}

func (t *trials) set(profile verify.CompiledProfile, known trial) {
	known.hash = profile.Hash
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[profile.Name] = known
}

// keep forgets profiles that the policy does not have.
func (t *trials) keep(profiles verify.Profiles) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.known, func(name string, _ trial) bool {
		_, ok := profiles.Named(name)
		return !ok
	})
}

// enqueueTrials has the profiles looked at that may not be proved.
func (c *Controller) enqueueTrials() {
	profiles := c.Profiles()
	c.trials.keep(profiles)
	for _, profile := range profiles.All() {
		if known, ok := c.trials.find(profile); profile.Triable() && (!ok || !known.proved) {
			c.queue.Add(trialWork + profile.Name)
		}
	}
}

// workTrial finds out whether the checks of a profile are proved: a Node has passed them, or a trial. If not, it tries them on an open Node.
func (c *Controller) workTrial(ctx context.Context, name string) error {
	profiles := c.Profiles()
	profile, ok := profiles.Named(name)
	if !c.Leading() || !ok || !profile.Triable() {
		return nil
	}
	known, ok := c.trials.find(profile)
	if !ok {
		last, err := c.lastTrial(ctx, profile)
		if err != nil {
			return err
		}
		known = lastKnown(profile, last)
		c.trials.set(profile, known)
	}
	if known.proved {
		return nil
	}
	if control, ok := c.trialPod(profile); ok {
		return c.endTrial(ctx, profile, control, known)
	}
	if left := known.next.Sub(c.Now()); left > 0 {
		c.queue.AddAfter(trialWork+name, left)
		return nil
	}
	node, proved, err := c.placeOfTrial(ctx, profiles, profile)
	switch {
	case err != nil:
		return err
	case proved:
		known.proved = true
	case node == nil:
		known.next = c.Now().Add(profile.MaxBackoff)
	default: // its Pod may be deleted before it ends
		known.next = c.Now().Add(profile.Backoff)
	}
	c.trials.set(profile, known)
	if node == nil || proved {
		c.queue.AddAfter(trialWork+name, known.next.Sub(c.Now()))
		return nil
	}
	return c.startTrial(ctx, profile, node)
}

// lastKnown returns what the last trial shows that a process kept.
func lastKnown(profile verify.CompiledProfile, last verify.SavedReport) trial {
	if !last.TrialOf(profile) {
		return trial{}
	}
	return trial{proved: last.Result == verify.VerdictPassed, failed: last.Attempt, next: last.Time.Add(verify.Backoff(profile, last.Attempt))}
}

// lastTrial returns the last trial of a profile that was kept. It is listed, as old reports are: the account has no right to get each ConfigMap.
func (c *Controller) lastTrial(ctx context.Context, profile verify.CompiledProfile) (last verify.SavedReport, err error) {
	name := verify.TrialName(profile.Name)
	list, err := c.Client.CoreV1().ConfigMaps(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return last, fmt.Errorf("read last trial of profile %q: %w", profile.Name, err)
	}
	for _, object := range list.Items {
		if object.Name == name {
			last, _ = verify.ParseSavedReport(object.Data[verify.ReportKey]) // one that cannot be read is overwritten
		}
	}
	return last, nil
}

// trialPod returns the trial Pod of the checks that a profile has now.
func (c *Controller) trialPod(profile verify.CompiledProfile) (pod control, ok bool) {
	for _, control := range c.controls.all() {
		if control = c.observed(control); control.key == profile.TrialKey() && control.Deleted.IsZero() {
			return control, true
		}
	}
	return control{}, false
}

// placeOfTrial reads the Nodes of a profile live, since the watch brought them under another policy. A verified one goes before others that are open;
// nil: there is none.
func (c *Controller) placeOfTrial(ctx context.Context, profiles verify.Profiles, profile verify.CompiledProfile) (node *verify.Node, proved bool, err error) {
	options := metav1.ListOptions{LabelSelector: profile.Selector.String(), Limit: nodesAtOnce}
	var verified, open []*corev1.Node
	for page := 0; ; page++ {
		list, err := c.Client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, false, fmt.Errorf("list nodes of profile %q: %w", profile.Name, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			switch shows := profiles.Shows(object, c.Cluster.Gate); {
			case shows.Profile != profile.Name:
			case shows.Proves:
				return nil, true, nil
			case shows.Verified:
				verified = append(verified, object)
			case shows.Open:
				open = append(open, object)
			}
		}
		if len(verified) > 0 {
			open = verified
		}
		if options.Continue = list.Continue; options.Continue == "" || page >= pagesRead && len(open) > 0 {
			break
		}
	}
	if len(open) == 0 {
		return nil, false, nil
	}
	chosen := verify.NodeOf(open[rand.IntN(len(open))])
	return &chosen, false, nil
}

// startTrial creates a trial Pod. It counts towards the limits of starts as a control Pod does.
func (c *Controller) startTrial(ctx context.Context, profile verify.CompiledProfile, node *verify.Node) error {
	pod := control{key: profile.TrialKey(), ControlPod: verify.ControlPod{Node: node.Name, Pod: verify.Pod{Name: podName(verify.TrialPrefix), NodeUID: node.UID, Created: c.Now()}}}
	if err := c.createControl(ctx, pod, node, profile); err != nil {
		return fmt.Errorf("create trial Pod of profile %q on node %q: %w", profile.Name, node.Name, err)
	}
	c.queue.Add(trialWork + profile.Name) // the watch may have brought the Pod before its uid was known
	return nil
}

// endTrial keeps what came of a trial Pod that has ended, and deletes it. A Node that is not Ready by now shows nothing.
func (c *Controller) endTrial(ctx context.Context, profile verify.CompiledProfile, pod control, known trial) error {
	judged := verify.Judge(pod.Pod, profile.Network(), c.Now())
	if judged.Verdict == verify.VerdictRunning {
		c.queue.AddAfter(trialWork+profile.Name, max(judged.Deadline.Sub(c.Now()), firstRetry))
		return nil
	}
	object, _, err := c.nodes.GetStore().GetByKey(pod.Node)
	if n, ok := object.(*node); err == nil && ok && n.uid == pod.NodeUID && n.ready {
		report := profile.TrialReport(judged, pod.Node, pod.NodeUID, known.failed+1, c.Now())
		if err := c.keepReport(ctx, report); err != nil {
			return err
		}
		c.trials.set(profile, lastKnown(profile, report))
		c.reportTrial(n, profile, report)
	}
	c.controls.forget(pod.Name)
	c.queue.AddAfter(trialWork+profile.Name, firstRetry)
	return c.deletePod(ctx, verify.Action{Pod: pod.Pod, Diagnosis: verify.Diagnosis{Cause: verify.CauseOldWorker, Detail: "the trial has ended"}, Force: true})
}
