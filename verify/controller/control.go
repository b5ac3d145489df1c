package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// controlWork is the key in the queue of the work on control Pods that exist. With the name of a profile behind it, the work is to start its
// control Pod. No Node can have such a name.
const controlWork = "/control/"

// isShared reports whether a failure of a profile is shared now. It was found to be shared, and Nodes of the profile still wait.
func (c *Controller) isShared(profile string) bool {
	return c.told.lasts(verify.ReasonShared, profile, c.Now()) && c.standing.holds(profile)
}

// controlChanged has the Nodes looked at that may wait for a control Pod: those with a worker Pod.
func (c *Controller) controlChanged(before, after *pod) {
	switch {
	case after == nil:
		c.starting(func(starts *verify.Starts) { starts.Gone(before.UID) })
	case after.Over(): // it stays as a result, and takes nothing
		c.starting(func(starts *verify.Starts) { starts.Gone(after.UID) })
	default:
		c.starting(func(starts *verify.Starts) { starts.Exists(after.UID) })
	}
	c.queue.Add(controlWork)
	c.enqueueWorkers()
}

// controlOf is what is known of the control of a profile.
func (c *Controller) controlOf(profile verify.CompiledProfile) verify.Control {
	control := verify.Control{Possible: c.standing.hasControl(profile.Name)}
	for _, p := range c.podsBy(byControl, profile.ControlKey()) {
		if p.Deleted.IsZero() {
			control.Pod, control.On = &p.Pod, p.on
		}
	}
	return control
}

// lastPassed is when a verified Node of a profile last passed its checks.
func (c *Controller) lastPassed(profile string) (last time.Time) {
	for n := range all[node](c.nodes) {
		if n.profile == profile && n.passed.After(last) && !n.passed.After(c.Now()) {
			last = n.passed
		}
	}
	return last
}

// workControls starts the control Pod of a profile. Without one it deletes the control Pods whose time is over.
func (c *Controller) workControls(ctx context.Context, name string) error {
	if !c.Leading() {
		return nil
	}
	profiles := map[string]verify.CompiledProfile{} // by what control Pods are for
	for _, profile := range c.Profiles().All() {
		if profile.Name == name {
			return c.startControl(ctx, profile)
		}
		profiles[profile.ControlKey()] = profile
	}
	var errs []error
	for p := range all[pod](c.pods) {
		if p.on != "" && p.Deleted.IsZero() {
			errs = append(errs, c.sweepControl(ctx, p, profiles))
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
	if !verify.ControlDue(c.controlOf(profile).Pod, profile, c.Now()) {
		return nil
	}
	var able []*node
	for n := range all[node](c.nodes) {
		if n.controls && n.profile == profile.Name {
			able = append(able, n)
		}
	}
	if len(able) == 0 {
		return nil
	}
	before, key := "", profile.ControlKey()
	if pods := c.podsBy(byControl, key); len(pods) > 0 {
		before = pods[len(pods)-1].UID
	}
	on := able[rand.IntN(len(able))]
	action := verify.Action{Do: verify.DoControl, Profile: profile.Network(), PodName: verify.ControlName(key, before)}
	c.starting(func(starts *verify.Starts) { starts.Control(action.PodName, c.Now()) })
	uid, err := c.createPod(ctx, on.planned(), action, func(p *pod) bool { return p.control == key })
	c.starting(func(starts *verify.Starts) { starts.Created(action.PodName, uid, c.Now()) })
	if err != nil {
		return fmt.Errorf("create control Pod of profile %q on node %q: %w", profile.Name, on.name, err)
	}
	return nil
}
