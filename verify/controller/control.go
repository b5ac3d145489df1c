package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/verify"
)

// controlWork is the key in the queue of the work on control Pods that exist. With the name of a profile behind it, the work is to start its
// control Pod. No Node can have such a name.
const controlWork = "/control/"

// isShared reports whether a failure of a profile is shared now. It was found to be shared, and Nodes of the profile still wait.
func (c *Controller) isShared(profile string) bool {
	return c.sharedReports.lasts(verify.ReasonShared, profile, c.Now()) && c.standing.holds(profile)
}

// controls are the control Pods and trial Pods that this process created, by name. No other one counts: what a Pod says of itself proves nothing.
type controls struct {
	mu     sync.Mutex
	pods   map[string]control
	oldest map[string]time.Time // by profile: none that was created before this answers what waits
}

// control is a control Pod as it was created.
type control struct {
	verify.ControlPod        // without a UID: it is being created
	key               string // what it is for ([verify.CompiledProfile.ControlKey], [verify.CompiledProfile.TrialKey])
}

// wants notes that no control Pod of a profile answers that was created before.
func (c *controls) wants(profile string, start time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if start.After(c.oldest[profile]) {
		c.oldest[profile] = start
	}
}

func (c *controls) wanted(profile string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oldest[profile]
}

// creates notes that a control Pod is being created. What create returns is its uid.
func (c *controls) creates(pod control, create func() (string, error)) (uid string, err error) {
	c.set(pod)
	if pod.UID, err = create(); err != nil {
		c.forget(pod.Name)
		return "", err
	}
	c.set(pod)
	return pod.UID, nil
}

func (c *controls) set(pod control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[pod.Name] = pod
}

func (c *controls) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, name)
}

// contains reports whether a Pod is one of them, or may be one that is being created.
func (c *controls) contains(name, uid string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	control, ok := c.pods[name]
	return ok && (control.UID == "" || control.UID == uid)
}

// all returns all of them, the oldest first.
func (c *controls) all() []control {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.pods), func(a, b control) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
}

// controlChanged has the Nodes looked at that may wait for a control Pod: those with a worker Pod.
func (c *Controller) controlChanged(prev, current *pod) {
	switch {
	case current == nil:
		c.starting(func(starts *verify.Starts) { starts.Gone(prev.UID) })
		if c.controls.contains(prev.Name, prev.UID) {
			c.controls.forget(prev.Name)
		}
	case current.Ended(): // it stays as a result, and takes nothing
		c.starting(func(starts *verify.Starts) { starts.Gone(current.UID) })
	default:
		c.starting(func(starts *verify.Starts) { starts.Exists(current.UID) })
	}
	c.queue.Add(controlWork)
	c.enqueueWorkers()
	c.enqueueTrials()
}

// controlOf returns what is known of the control of a profile for a Node; empty: for none. An open Node that is itself being checked answers for no other
// one, and not for itself.
func (c *Controller) controlOf(profile verify.CompiledProfile, about string) verify.Control {
	checked := c.checkedOpen(profile.Name)
	known := verify.Control{Able: c.standing.able(profile.Name) - checked.Len()}
	for _, control := range c.controls.all() {
		if control = c.observed(control); control.key == profile.ControlKey() && control.Deleted.IsZero() && control.Node != about && !checked.Has(control.Node) {
			known.Pods = append(known.Pods, control.ControlPod)
		}
	}
	return known
}

// checkedOpen returns the Nodes of a profile that could answer for others, and have a worker Pod themselves.
func (c *Controller) checkedOpen(profile string) sets.Set[string] {
	checked := sets.New[string]()
	for _, name := range c.pods.GetIndexer().ListIndexFuncValues(byNode) {
		if object, ok, err := c.nodes.GetStore().GetByKey(name); err == nil && ok && object.(*node).answers(profile) {
			checked.Insert(name)
		}
	}
	return checked
}

// answers reports whether a control Pod of a profile can run on a Node.
func (n *node) answers(profile string) bool { return n.controls && n.profile == profile }

// observed returns a control Pod as the watch shows it; as it was created, until the watch does.
func (c *Controller) observed(known control) control {
	object, ok, err := c.pods.GetStore().GetByKey(c.Namespace + "/" + known.Name)
	if p, isPod := object.(*pod); err == nil && ok && isPod && p.UID == known.UID {
		known.Pod = p.Pod
	}
	return known
}

// witnesses are the last Nodes that passed the checks of each profile. They are looked for once a second at most: there may be 100,000 Nodes.
type witnesses struct {
	mu     sync.Mutex
	time   time.Time
	latest map[string][]pass // by profile, the latest first
}

// pass is when a Node passed.
type pass struct {
	node string
	time time.Time
}

// last returns when so many Nodes of a profile, without one, last passed its checks; zero: so many have not.
func (w *witnesses) last(c *Controller, profile, excluded string, wanted int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := c.Now(); now.Sub(w.time) >= time.Second || now.Before(w.time) {
		w.time, w.latest = now, latestPasses(all[node](c.nodes), now)
	}
	for _, pass := range w.latest[profile] {
		if pass.node == excluded {
			continue
		}
		if wanted--; wanted == 0 {
			return pass.time
		}
	}
	return time.Time{}
}

// latestPasses returns the three latest of each profile: two are asked for, without one.
func latestPasses(nodes iter.Seq[*node], now time.Time) map[string][]pass {
	const wanted = 3
	latest := map[string][]pass{}
	for n := range nodes {
		if n.passed.IsZero() || n.passed.After(now) {
			continue
		}
		passes := latest[n.profile]
		if len(passes) == wanted && !n.passed.After(passes[wanted-1].time) {
			continue
		}
		i, _ := slices.BinarySearchFunc(passes, n.passed, func(p pass, t time.Time) int { return t.Compare(p.time) })
		passes = slices.Insert(passes, i, pass{n.name, n.passed})
		latest[n.profile] = passes[:min(len(passes), wanted)]
	}
	return latest
}

// workControls starts a control Pod of a profile. Without a profile it deletes the control Pods whose time is over, and those of others.
func (c *Controller) workControls(ctx context.Context, name string) error {
	if !c.Leading() {
		return nil
	}
	profiles := map[string]verify.CompiledProfile{} // by what control Pods are for
	for _, profile := range c.Profiles().All() {
		if profile.Name == name {
			return c.startControl(ctx, profile)
		}
		profiles[profile.ControlKey()], profiles[profile.TrialKey()] = profile, profile
	}
	var errs []error
	for p := range all[pod](c.pods) {
		if p.nodeName == "" || !p.Deleted.IsZero() || c.controls.contains(p.Name, p.UID) {
			continue
		}
		if left := c.strangerEnds(p).Sub(c.Now()); left > 0 { // another process may lead, too: it reads the result
			c.queue.AddAfter(controlWork, left)
			continue
		}
		errs = append(errs, c.deletePod(ctx, verify.Action{Pod: p.Pod, Diagnosis: verify.Diagnosis{Cause: verify.CauseOldWorker, Detail: "this process did not create the control Pod"}, Force: true}))
	}
	for _, control := range c.controls.all() {
		errs = append(errs, c.sweepControl(ctx, c.observed(control), profiles))
	}
	return errors.Join(errs...)
}

// strangerEnds returns when the time of a control Pod of another process is over, whatever it is for.
func (c *Controller) strangerEnds(p *pod) (ends time.Time) {
	for _, profile := range c.Profiles().All() {
		if end := verify.ControlEnds(p.Pod, profile, c.Now()); end.After(ends) {
			ends = end
		}
	}
	return ends
}

// sweepControl deletes a control Pod whose time is over, or whose profile asks something else by now.
func (c *Controller) sweepControl(ctx context.Context, pod control, known map[string]verify.CompiledProfile) error {
	if profile, ok := known[pod.key]; ok {
		if left := verify.ControlEnds(pod.Pod, profile, c.Now()).Sub(c.Now()); left > 0 {
			c.queue.AddAfter(controlWork, left)
			return nil
		}
	}
	if pod.UID == "" { // it is being created
		c.queue.AddAfter(controlWork, firstRetry)
		return nil
	}
	if pod.Deleted.IsZero() {
		if err := c.deletePod(ctx, verify.Action{Pod: pod.Pod, Diagnosis: verify.Diagnosis{Cause: verify.CauseOldWorker, Detail: "its result counts no more"}, Force: true}); err != nil {
			return err
		}
	}
	c.controls.forget(pod.Name)
	return nil
}

// startControl starts a control Pod of a profile on one of its verified Nodes that has none, whichever.
func (c *Controller) startControl(ctx context.Context, profile verify.CompiledProfile) error {
	known, start := c.controlOf(profile, ""), c.controls.wanted(profile.Name)
	if !known.Due(profile, start, c.Now()) {
		return nil
	}
	asked := c.checkedOpen(profile.Name)
	for _, pod := range known.Asked(profile, start, c.Now()) {
		asked.Insert(pod.Node)
	}
	var able []*node
	for n := range all[node](c.nodes) {
		if n.answers(profile.Name) && !asked.Has(n.name) {
			able = append(able, n)
		}
	}
	if len(able) == 0 {
		return nil
	}
	target := able[rand.IntN(len(able))]
	started := control{key: profile.ControlKey(), ControlPod: verify.ControlPod{Node: target.name, Pod: verify.Pod{Name: podName(verify.ControlPrefix), NodeUID: target.uid, Created: c.Now()}}}
	if err := c.createControl(ctx, started, target.planned(), profile); err != nil {
		return fmt.Errorf("create control Pod of profile %q on node %q: %w", profile.Name, target.name, err)
	}
	c.enqueueWorkers() // the watch may have brought the Pod before its uid was known
	return nil
}

// createControl creates a control Pod or a trial Pod with the network checks of a profile.
func (c *Controller) createControl(ctx context.Context, pod control, node *verify.Node, profile verify.CompiledProfile) error {
	action := verify.Action{Operation: verify.DoControl, Profile: profile.Network()}
	c.starting(func(starts *verify.Starts) { starts.Control(pod.Name, c.Now()) })
	uid, err := c.controls.creates(pod, func() (string, error) { return c.createPod(ctx, pod.Name, node, action) })
	c.starting(func(starts *verify.Starts) { starts.Created(pod.Name, uid, c.Now()) })
	return err
}
