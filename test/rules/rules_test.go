package rules

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a run is like without settings.
const (
	usualNodes  = 60
	usualRounds = 6
)

func TestNodesOfSixKindsCarryExactlyWhatTheRulesSayAfterEachStepAndNoLabelFlaps(t *testing.T) {
	seed, count, rounds := setting64(t, "NODEKEEP_SEED", rand.Uint64()), setting64(t, "NODEKEEP_NODES", usualNodes), setting64(t, "NODEKEEP_ROUNDS", usualRounds)
	replay := fmt.Sprintf("NODEKEEP_SEED=%d NODEKEEP_NODES=%d NODEKEEP_ROUNDS=%d go test -run '^%s$' ./test/rules", seed, count, rounds, t.Name())
	fmt.Fprintln(os.Stderr, "replay:", replay) // also when the run is cut off
	started := time.Now()
	w := newWorld(t, seed, int(count))
	w.change("first policy", w.writer.policy())
	w.step("all register", func() { w.each(w.machines, w.register) })
	w.step("device plugins register", func() {
		w.each(w.machines, func(m *machine) error { return w.report(m, kinds()[kindOf(m)][2], true, false) })
	})
	for round := range int(rounds) {
		in := func(what string) string { return fmt.Sprintf("round %d: %s", round+1, what) }
		w.change(in("another policy"), w.writer.policy())
		switch round % 3 {
		case 0:
			w.restarts(in)
		case 1:
			w.devices(in)
		default:
			w.kubeletsRestart(in)
		}
		w.operators(in("operators relabel"))
	}
	t.Logf("%d Nodes, %d policies in %s: %v", count, rounds+1, time.Since(started).Round(time.Second), w.figures)
}

func (w *world) step(title string, do func()) {
	w.t.Helper()
	began := time.Now()
	do()
	w.settle(title, began, w.follow)
}

// restarts are machines that boot: their Nodes are deleted and register without GPUs, and their plugins register later, all or fewer.
func (w *world) restarts(in func(string) string) {
	w.t.Helper()
	some, gpus := w.some(0.3), map[string]int{}
	w.step(in("machines restart"), func() { w.each(some, w.restart) })
	w.step(in("their kubelets are ready, and no plugin has registered"), func() {
		w.each(some, func(m *machine) error { return w.report(m, 0, false, len(m.name)%2 == 0) })
	})
	for _, m := range some {
		gpus[m.name] = kinds()[kindOf(m)][2]
		if w.writer.chance(0.2) {
			gpus[m.name] /= 2
		}
	}
	w.step(in("their plugins register"), func() {
		w.each(some, func(m *machine) error { return w.report(m, gpus[m.name], gpus[m.name] == 0, false) })
	})
	w.step(in("and had time to"), func() {
		w.each(some, func(m *machine) error { return w.report(m, gpus[m.name], true, false) })
	})
}

// devices come and go.
func (w *world) devices(in func(string) string) {
	w.t.Helper()
	some, gpus := w.some(0.4), map[string]int{}
	for _, m := range some {
		gpus[m.name] = pick(w.writer, 0, 1, 2, 4)
		if kinds()[kindOf(m)][2] == 0 {
			gpus[m.name] = 0
		}
	}
	w.step(in("devices come and go"), func() {
		w.each(some, func(m *machine) error { return w.report(m, gpus[m.name], true, true) })
	})
}

// kubeletsRestart: the Nodes stay, and say 0 GPUs until the plugins have registered again.
func (w *world) kubeletsRestart(in func(string) string) {
	w.t.Helper()
	some, gpus := w.some(0.4), map[string]int{}
	for _, m := range some {
		gpus[m.name] = m.gpus
	}
	w.step(in("kubelets restart"), func() {
		w.each(some, func(m *machine) error { return w.report(m, 0, false, true) })
	})
	w.step(in("their plugins register again"), func() {
		w.each(some, func(m *machine) error { return w.report(m, gpus[m.name], true, false) })
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
	some := w.some(0.3)
	for _, m := range some {
		key := pick(w.writer, operatorKeys()...)
		own, has := m.operators[key]
		set, ruled := m.ruled[key]
		switch {
		case has && !ruled && own != "" && w.writer.chance(0.5): // what a winning rule hides cannot be removed
			edits[m] = edit{key, nil}
			delete(m.operators, key)
		case !has && ruled && w.writer.chance(0.3):
			edits[m] = edit{key, nil}
		default:
			value := w.writer.value(key)
			if value == own || value == set.value {
				value += "-other"
			}
			edits[m] = edit{key, value}
			m.operators[key] = value
		}
	}
	w.step(title, func() {
		w.each(some, func(m *machine) error { return w.relabel(m, edits[m].key, edits[m].value) })
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

func setting64(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	value, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s must be a number", name)
	return value
}
