package verify_test

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/verify"
)

// remove removes a Node as verify/controller does. The process may be killed before each write, and another process may work in between.
func (c *modelController) remove(name string, node modelNode, action verify.Action, control verify.Control, profiles verify.Profiles) {
	seen, version := verify.Removals{Ledger: c.ledger, Nodes: map[string]bool{}}, c.written
	for _, profile := range slices.Sorted(maps.Keys(c.brakes)) {
		for reason, t := range c.brakes[profile] {
			seen.Ledger, _ = seen.Ledger.Seeing(profile, reason, t)
		}
	}
	for _, item := range c.nodes {
		profile, selected := profiles.Match(item.Labels)
		if selected {
			seen.Selected++
		}
		if selected && profile.Name == action.Profile.Name {
			seen.Nodes[item.UID] = profiles.Fails(&item.Node)
		}
	}
	live := func() (*modelNode, bool) {
		item, ok := c.model.nodes[name]
		ok = ok && item.UID == node.UID && item.version == node.version
		if !ok {
			c.totals["Conflicts"]++
		}
		return item, ok
	}
	entry, ok := live()
	if !ok {
		return
	}
	if entry.occupied {
		seen.Blocked = &verify.Brake{Reason: verify.BrakePods}
	}
	decided := action.Decide(seen, profiles.Limits, c.now)
	if decided.Operation != verify.DoRemove {
		c.totals["HeldRemovals"]++
		c.noteBrakes(decided)
		c.checkCounted(decided, control)
		c.change(entry, decided, profiles)
		return
	}
	if c.mayEnd() || c.written != version {
		return // another process wrote the ledger
	}
	c.ledger, c.written = seen.Ledger.Add(decided.Removal, c.now), c.written+1
	written := c.written
	if c.mayEnd() {
		return
	}
	if entry, ok = live(); !ok {
		return
	}
	c.checkRemoved(entry, decided, control, seen, profiles)
	delete(c.model.nodes, name)
	c.wrote(name)
	c.totals["Removed"]++
	c.removed = append(c.removed, verify.Removal{Node: name, UID: node.UID, Profile: action.Profile.Name, Time: c.now})
	if c.mayEnd() || c.written != written {
		return
	}
	c.ledger, c.written = c.ledger.Finished(node.UID), c.written+1
}

// mayEnd lets the other process work, and reports whether this one is killed.
func (c *modelController) mayEnd() bool {
	if c.leaders == 2 && !c.nested && c.chance(3) {
		o := c.controllers[0]
		if o == c {
			o = c.controllers[1]
		}
		o.nested = true
		o.observe(!c.lags)
		if name := c.anyNode(); name != "" {
			o.work(name)
		}
		o.nested = false
	}
	if c.crashes && c.chance(8) {
		c.totals["Crashes"]++
		c.restart()
		return true
	}
	return false
}

// noteBrakes writes brakes down that concern a whole profile.
func (c *modelController) noteBrakes(action verify.Action) {
	reason, profile := action.Saw(), action.Profile
	if reason == "" || !profile.Removes() {
		return
	}
	if c.brakes[profile.Name] == nil {
		c.brakes[profile.Name] = map[verify.BrakeReason]time.Time{}
	}
	c.brakes[profile.Name][reason] = c.now
	if seeing, news := c.ledger.Seeing(profile.Name, reason, c.now); news {
		c.ledger, c.written = seeing, c.written+1
	}
}

// checkRemoved is what must hold of every Node that is removed, whatever the ledger says.
func (c *modelController) checkRemoved(live *modelNode, action verify.Action, control verify.Control, seen verify.Removals, profiles verify.Profiles) {
	limits, name := profiles.Limits, action.Profile.Name
	inHour, ofProfile, nodes := 0, 0, maps.Clone(seen.Nodes)
	for _, prev := range c.removed {
		if prev.Time.Add(time.Hour).After(c.now) {
			inHour++
		}
		if prev.Profile == name {
			ofProfile++
			delete(nodes, prev.UID)
		}
		switch {
		case prev.Node == live.Name:
			c.fail("node %s was removed twice, %s apart", live.Name, c.now.Sub(prev.Time))
		case prev.Time.Add(limits.Pause(seen.Selected)).After(action.Pod.Created):
			c.fail("node %s was removed for a failure within the cooldown", live.Name)
		}
	}
	failing := 0
	for uid, fails := range nodes {
		if fails && uid != live.UID {
			failing++
		}
	}
	passed := sets.New[string]()
	for _, pod := range control.Pods {
		if len(pod.Containers) > 0 && pod.Containers[0].Message == passes && !pod.Created.Before(action.Pod.Created) {
			passed.Insert(pod.Node)
		}
	}
	share := map[string]int{"30%": 30, "50%": 50, "100%": 100}[limits.StopAbove.StrVal]
	switch {
	case !action.Profile.Removes():
		c.fail("node %s was removed against the profile", live.Name)
	case inHour >= limits.DeletionsPerHour:
		c.fail("node %s was removed as number %d of an hour", live.Name, inHour+1)
	case inHour > 0 && (inHour+1)*100 > limits.Percent*seen.Selected:
		c.fail("node %s was removed as number %d of an hour, of %d nodes", live.Name, inHour+1, seen.Selected)
	case live.wasOpen && !live.faked:
		c.fail("node %s was removed though it was open before", live.Name)
	case live.occupied:
		c.fail("node %s was removed with its Pods", live.Name)
	case action.Pod.NodeUID != live.UID || len(action.Pod.Containers) == 0 || action.Pod.Containers[0].Message != refuses:
		c.fail("node %s was removed though no check failed on it", live.Name)
	case passed.Len() == 0 || passed.Len() < min(2, control.Able):
		c.fail("node %s was removed though only %v of %d verified Nodes passed since its worker Pod was started", live.Name, passed.UnsortedList(), control.Able)
	case action.Pod.Created.Before(c.shared[name].Add(time.Minute)):
		c.fail("node %s was removed for a failure of the time of a shared one", live.Name)
	case (failing+1+ofProfile)*100 > share*(len(nodes)+ofProfile):
		c.fail("node %s was removed while %d of %d fail, and %d were removed", live.Name, failing+1, len(nodes), ofProfile)
	case !live.faked && verify.ParseProgress(live.Annotation).Failed+1 < action.Profile.MaxAttempts:
		c.fail("node %s was removed after %d failures", live.Name, verify.ParseProgress(live.Annotation).Failed+1)
	}
}
