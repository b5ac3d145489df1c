package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/random"
)

func TestNodesOfSixKindsCarryExactlyWhatTheRulesSayAfterEachStepAndNoLabelFlaps(t *testing.T) {
	run := random.NewRun(t, "./test/rules", random.Run{Nodes: 60, Rounds: 6})
	started := time.Now()
	w := newWorld(t, run.Seed, run.Nodes)
	w.change("first policy", w.writer.policy())
	w.step("all register", func() { w.forEach(w.machines, w.register) })
	w.step("device plugins register", func() {
		w.forEach(w.machines, func(m *machine) error { return w.plug(m, kinds()[kindOf(m)][2], true, cardsOf(kindOf(m))) })
	})
	for round := range run.Rounds {
		in := func(subject string) string { return fmt.Sprintf("round %d: %s", round+1, subject) }
		w.change(in("another policy"), w.writer.policy())
		switch round % 3 {
		case 0:
			w.restarts(in)
		case 1:
			w.devices(in)
			w.fight(in("an operator's client fights with a rule"))
		default:
			w.kubeletsRestart(in)
		}
		w.operators(in("operators relabel"))
	}
	t.Logf("%d Nodes, %d policies in %s: %v", run.Nodes, run.Rounds+1, time.Since(started).Round(time.Second), w.figures)
}

func (w *world) step(title string, fn func()) {
	w.t.Helper()
	began := time.Now()
	fn()
	w.settle(title, began, w.follow)
}

// plug has the drivers of a Node list its devices, and its device plugins report GPUs. The drivers come first: once they had time to start, a
// device that is not listed counts as absent.
func (w *world) plug(m *machine, gpus int, ok bool, cards []string) error {
	if err := w.publish(m, cards, false); err != nil {
		return err
	}
	return w.report(m, gpus, ok, false)
}

// restarts are machines that boot: their Nodes are deleted and register without GPUs, and their plugins register later, all or fewer. Some are
// other machines of the name, some have their system installed again, and some kubelets cannot read CPU and memory at first.
func (w *world) restarts(in func(string) string) {
	w.t.Helper()
	w.outlast(in("machines restart"))
	part, gpus, replaced := w.sample(0.3), map[string]int{}, map[string]bool{}
	for _, m := range part {
		m.blind = w.writer.chance(0.3)
		switch p := w.writer.Float64(); {
		case p < 0.25:
			replaced[m.name] = true
			w.figures["machines replaced"]++
		case p < 0.5:
			m.installed++
		}
	}
	w.step(in("machines restart"), func() { w.forEach(part, func(m *machine) error { return w.restart(m, replaced[m.name]) }) })
	w.step(in("their kubelets are ready, and no plugin has registered"), func() {
		w.forEach(part, func(m *machine) error {
			m.blind = false
			return w.report(m, 0, false, len(m.name)%2 == 0)
		})
	})
	for _, m := range part {
		gpus[m.name] = kinds()[kindOf(m)][2]
		if w.writer.chance(0.2) {
			gpus[m.name] /= 2
		}
	}
	w.step(in("their plugins register"), func() {
		w.forEach(part, func(m *machine) error { return w.report(m, gpus[m.name], gpus[m.name] == 0, false) })
	})
	w.step(in("and had time to"), func() {
		w.forEach(part, func(m *machine) error { return w.report(m, gpus[m.name], true, false) })
	})
}

// devices come and go, and so does room for Pods.
func (w *world) devices(in func(string) string) {
	w.t.Helper()
	w.outlast(in("devices come and go"))
	part, gpus, cards, partly := w.sample(0.4), map[string]int{}, map[string][]string{}, map[string]bool{}
	for _, m := range part {
		gpus[m.name] = pick(w.writer, 0, 1, 2, 4)
		if kinds()[kindOf(m)][2] == 0 {
			gpus[m.name] = 0
		}
		m.room, m.sick = pick(w.writer, m.cpu, m.cpu/2), pick(w.writer, 0, 0, 1)
		cards[m.name], partly[m.name] = w.cards(m)
	}
	w.step(in("devices come and go"), func() {
		w.forEach(part, func(m *machine) error {
			if err := w.report(m, gpus[m.name], true, true); err != nil {
				return err
			}
			return w.publish(m, cards[m.name], partly[m.name]) // last: it is to be followed by itself
		})
	})
}

// cards returns devices that a driver lists: all of the Node, the others of its kind, some or none; and whether a slice of them is missing.
func (w *world) cards(m *machine) (cards []string, partly bool) {
	cards = slices.Clone(cardsOf(kindOf(m)))
	w.writer.Shuffle(len(cards), func(a, b int) { cards[a], cards[b] = cards[b], cards[a] })
	if w.writer.chance(0.6) {
		cards = cards[:w.writer.IntN(len(cards)+1)]
	}
	return cards, w.writer.chance(0.3)
}

// fight has an operator's client set a label on a few Nodes again each time that a rule has replaced it.
func (w *world) fight(title string) {
	w.t.Helper()
	part := []*machine{}
	for _, m := range w.machines {
		_, prev := m.operators[owner]
		if _, ruled := m.ruled[owner]; ruled && !prev && m.name != witness && len(part) < 3 {
			part = append(part, m)
		}
	}
	w.step(title, func() { w.forEach(part, w.insist) })
}

// kubeletsRestart: the Nodes stay, and say 0 GPUs until the plugins have registered again. Drivers withdraw their slices, or list fewer devices
// and say that there are more, and some kubelets cannot read CPU and memory.
func (w *world) kubeletsRestart(in func(string) string) {
	w.t.Helper()
	w.outlast(in("kubelets restart"))
	part, gpus := w.sample(0.4), map[string]int{}
	cards, left := map[string][]string{}, map[string]int{}
	for _, m := range part {
		gpus[m.name], cards[m.name], left[m.name] = m.gpus, m.cards, w.writer.IntN(len(m.cards)+1)
		m.blind = w.writer.chance(0.3)
	}
	w.step(in("kubelets restart"), func() {
		w.forEach(part, func(m *machine) error {
			if err := w.report(m, 0, false, true); err != nil {
				return err
			}
			return w.publish(m, m.cards[:left[m.name]], true)
		})
	})
	w.step(in("their plugins register again"), func() {
		w.forEach(part, func(m *machine) error {
			m.blind = false
			return w.plug(m, gpus[m.name], true, cards[m.name])
		})
	})
}

// operators set labels, change them, and remove their own ones and those of rules.
func (w *world) operators(title string) {
	w.t.Helper()
	type edit struct {
		key   string
		value any
	}
	edits := map[*machine]edit{}
	part := w.sample(0.3)
	for _, m := range part {
		key := pick(w.writer, operatorKeys()...)
		current, ok := m.operators[key]
		set, ruled := m.ruled[key]
		switch {
		case ok && !ruled && current != "" && w.writer.chance(0.5): // what a winning rule hides cannot be removed
			edits[m] = edit{key, nil}
			delete(m.operators, key)
		case !ok && ruled && w.writer.chance(0.3):
			edits[m] = edit{key, nil}
		default:
			value := w.writer.value(key)
			if value == current || value == set.value {
				value += "-other"
			}
			edits[m] = edit{key, value}
			m.operators[key] = value
		}
	}
	w.step(title, func() {
		w.forEach(part, func(m *machine) error { return w.relabel(m, edits[m].key, edits[m].value) })
	})
}

func kindOf(m *machine) string {
	for kind := range kinds() {
		if named(kind).ask(m, nil) == yes {
			return kind
		}
	}
	return "small"
}
