//go:build oldcore

package capture

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// check holds what there is, when all is quiet, against what people want.
func (w *world) check(leader *simCapture) {
	for object, of := range leader.told {
		if !of.late {
			w.model.keeps(of.node, object, of.version)
		}
	}
	for _, name := range w.story.names {
		record, found := w.recordOf(name)
		n := w.nodes[name]
		lives := n != nil && !n.deleting
		for _, key := range simKeys {
			w.checkLabel(simLabel{name, key}, record, n)
		}
		switch {
		case !lives && n == nil && found && record.DeletedAt == nil:
			w.fail("the record of %s does not say that it is gone", name)
		case lives && gate.On(n.taints):
			w.fail("%s is still gated", name)
		case lives && found && record.UID != n.uid:
			w.fail("the record of %s is not of the object that lives", name)
		case lives && record.DeletedAt != nil:
			w.fail("the record of %s says that it is gone", name)
		}
		if lives {
			w.checkRule(n, record)
		}
		for _, c := range slices.Clone(w.captures) {
			c.checkSightings(name)
		}
	}
	for _, c := range w.captures {
		c.checkStanding()
	}
	w.checkStore()
}

func (w *world) checkLabel(label simLabel, record store.Record, n *simNode) {
	remembered, known := record.Remembered()[label.key]
	if !known {
		remembered = unset
	}
	if answers := w.model.answers(label); !slices.Contains(answers, remembered) && !w.refusedOf[label] {
		w.fail("label %s of %s is remembered as %s; right is %v", label.key, label.node, remembered, answers)
	}
	w.model.settle(label, remembered)
	delete(w.refusedOf, label)
	if n == nil || n.deleting || n.kubeletsOwn(label.key) {
		return
	}
	shown, is := n.items()[label.key]
	if !is {
		shown = unset
	}
	if shown != remembered && (is || !w.mayLack(n, label.key)) {
		w.fail("label %s of %s is remembered as %s and shown as %s", label.key, label.node, remembered, shown)
	}
	if given, is := record.Items[label.key]; is && given != shown || !is && shown != unset {
		w.fail("label %s=%s of %s is not among the record's labels", label.key, shown, label.node)
	}
}

// checkRule checks that the rule's taint follows its label, and that the record says whose it is.
func (w *world) checkRule(n *simNode, record store.Record) {
	shown := gate.Without(n.taints)
	shown = slices.DeleteFunc(shown, func(taint corev1.Taint) bool { return policy.TaintItem(taint) != ruleItem })
	if want := w.policy.TaintsFor(n.labels); !slices.Equal(shown, want) {
		w.fail("%s shows %s; its labels want %s", n.name, policy.Shown(shown), policy.Shown(want))
	}
	ours := record.RuleTaints
	if record.NodeResourceVersion == strconv.Itoa(n.version) { // what was about to be put on this state may not have come to be
		ours = slices.DeleteFunc(slices.Clone(ours), func(taint corev1.Taint) bool { return !slices.Contains(shown, taint) })
	}
	if !slices.Equal(shown, ours) {
		w.fail("%s shows %s of the rules; the record says %s", n.name, policy.Shown(shown), policy.Shown(record.RuleTaints))
	}
}

// mayLack reports whether a remembered label may be missing on a Node: the policy never gives it, the API server refused
// it on this object, or it was taken off in a way that cannot be told from a loss.
func (w *world) mayLack(n *simNode, key string) bool {
	return w.neverGiven(key) || slices.Contains(w.refused[n.uid], key) || slices.Contains(w.model.open[n.uid], key)
}

// neverGiven reports whether the policy of the story leaves the label to people.
func (w *world) neverGiven(key string) bool {
	return strings.Contains(w.story.policy, "never") && strings.HasPrefix(key, "node-role.kubernetes.io/")
}

// checkSightings checks that a process has forgotten all that was dealt with, and knows what lives.
func (c *simCapture) checkSightings(name string) {
	gone, live := c.controller.sightings.look(name)
	if len(gone) > 0 && !c.leads() { // it knows what no leader ever saw and would write it when it leads: not this time
		c.die()
		return
	}
	if len(gone) > 0 {
		c.fail("process %d still holds %d objects of %s that went", c.id, len(gone), name)
	}
	if n := c.nodes[name]; (live == nil) != (n == nil) || n != nil && live.UID != n.uid {
		c.fail("process %d does not know which %s lives", c.id, name)
	}
}

// checkStore checks that nobody changed a record but by writing it.
func (w *world) checkStore() {
	for name, history := range w.history {
		entry, err := w.records.Get(name)
		last := history[len(history)-1]
		if last.Version == "" && errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil || entry.Version != last.Version || !maps.Equal(entry.Record.Shown(), last.Record.Shown()) ||
			!maps.Equal(entry.Record.Withheld.Items, last.Record.Withheld.Items) {
			w.fail("the record of %s was changed in memory: %v", name, err)
		}
		w.checkReplay(name)
	}
}
