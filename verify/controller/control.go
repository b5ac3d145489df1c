package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
)

// controlWork is the key in the queue of the work on control Pods. No Node can have this name.
const controlWork = "/control"

// controls is what this process itself knows of control.
type controls struct {
	mu     sync.Mutex
	wanted map[string]bool // profiles whose control Pod is to be started
}

// want has the control Pod of a profile started.
func (c *Controller) want(profile string) {
	c.controls.mu.Lock()
	c.controls.wanted[profile] = true
	c.controls.mu.Unlock()
	c.queue.Add(controlWork)
}

// isShared reports whether a failure of a profile is shared now. It was found to be shared, and Nodes of the profile still wait.
func (c *Controller) isShared(profile string) bool {
	return c.told.lasts(verify.ReasonShared, profile, c.Now()) && c.standing.holds(profile)
}

// controlChanged has the Nodes looked at that may wait for a control Pod: those with a worker Pod.
func (c *Controller) controlChanged(before, after *pod) {
	switch {
	case after == nil:
		c.starting(func(starts *verify.Starts) { starts.Gone(before.UID) })
	case after.Phase == corev1.PodSucceeded || after.Phase == corev1.PodFailed: // it stays as a result, and takes nothing
		c.starting(func(starts *verify.Starts) { starts.Gone(after.UID) })
	default:
		c.starting(func(starts *verify.Starts) { starts.Exists(after.UID) })
	}
	c.queue.Add(controlWork)
	c.enqueueWorkers()
}

// controlPods are the control Pods of a profile and its checks, the oldest first.
func (c *Controller) controlPods(key string) (pods []*pod) {
	objects, err := c.pods.GetIndexer().ByIndex(byControl, key)
	if err != nil {
		panic(err) // there is no such index
	}
	for _, object := range objects {
		if p, ok := object.(*pod); ok {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
	})
	return pods
}

// controlOf is what is known of the control of a profile.
func (c *Controller) controlOf(profile verify.CompiledProfile) verify.Control {
	control := verify.Control{Possible: c.standing.hasControl(profile.Name)}
	for _, p := range c.controlPods(profile.ControlKey()) {
		if p.Deleted.IsZero() {
			control.Pod, control.On = &p.Pod, p.on
		}
	}
	return control
}

// lastPassed is when a verified Node of a profile last passed its checks.
func (c *Controller) lastPassed(profile string) (last time.Time) {
	for _, object := range c.nodes.GetStore().List() {
		if n, ok := object.(*node); ok && n.profile == profile && n.passed.After(last) && !n.passed.After(c.Now()) {
			last = n.passed
		}
	}
	return last
}

// workControls deletes control Pods whose time is over, and starts those that are wanted.
func (c *Controller) workControls(ctx context.Context) error {
	if !c.Leading() {
		return nil
	}
	profiles, errs := c.Profiles(), []error{}
	known := map[string]verify.CompiledProfile{}
	for _, profile := range profiles.All() {
		known[profile.ControlKey()] = profile
	}
	for _, object := range c.pods.GetStore().List() {
		if p, ok := object.(*pod); ok && p.on != "" && p.Deleted.IsZero() {
			errs = append(errs, c.sweepControl(ctx, p, known))
		}
	}
	c.controls.mu.Lock()
	wanted := c.controls.wanted
	c.controls.wanted = map[string]bool{}
	c.controls.mu.Unlock()
	for _, profile := range profiles.All() {
		if wanted[profile.Name] {
			errs = append(errs, c.startControl(ctx, profile))
		}
	}
	return errors.Join(errs...)
}

// sweepControl deletes a control Pod whose time is over, or whose profile asks something else by now.
func (c *Controller) sweepControl(ctx context.Context, p *pod, known map[string]verify.CompiledProfile) error {
	if profile, ok := known[p.control]; ok {
		if left := verify.ControlEnds(p.Pod, profile, c.Now()).Sub(c.Now()); left > 0 {
			c.queue.AddAfter(controlWork, left)
			return nil
		}
	}
	return c.deletePod(ctx, p.on, verify.Action{Pod: p.Pod, Reason: "its result counts no more", Force: true})
}

// startControl starts the control Pod of a profile on one of its verified Nodes, whichever.
func (c *Controller) startControl(ctx context.Context, profile verify.CompiledProfile) error {
	pods := c.controlPods(profile.ControlKey())
	if !verify.ControlDue(c.controlOf(profile).Pod, profile, c.Now()) {
		return nil
	}
	var able []*node
	for _, object := range c.nodes.GetStore().List() {
		if n, ok := object.(*node); ok && n.controls && n.profile == profile.Name {
			able = append(able, n)
		}
	}
	if len(able) == 0 {
		return nil
	}
	before := ""
	if len(pods) > 0 {
		before = pods[len(pods)-1].UID
	}
	on := able[rand.IntN(len(able))]
	action := verify.Action{Do: verify.DoControl, Profile: profile.Network(), PodName: verify.ControlName(profile.ControlKey(), before)}
	task, err := c.lookups.task(ctx, verify.Node{Name: on.name, UID: on.uid}, action, c.Cluster.DNS)
	if err != nil {
		return err
	}
	wanted, err := workerPod(c.Namespace, image{c.Image, c.Pull}, verify.Node{Name: on.name, UID: on.uid}, action, task)
	if err != nil {
		return err
	}
	c.starting(func(starts *verify.Starts) { starts.Control(action.PodName, c.Now()) })
	uid := ""
	created, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, wanted, metav1.CreateOptions{FieldManager: verify.Manager})
	if err == nil {
		uid = string(created.UID)
	}
	c.starting(func(starts *verify.Starts) { starts.Created(action.PodName, uid, c.Now()) })
	if apierrors.IsAlreadyExists(err) {
		_, err := c.existing(ctx, on.name, action.PodName, func(p *pod) bool { return p.control == profile.ControlKey() })
		return err
	}
	if err != nil {
		return fmt.Errorf("create control Pod of profile %q on node %q: %w", profile.Name, on.name, err)
	}
	c.Logger.Info("control pod created", "node", on.name, "pod", action.PodName, "profile", profile.Name)
	return nil
}
