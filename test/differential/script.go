package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// The labels that scripts are about. Kubelets may not carry the protected ones.
func ordinaryKeys() []string {
	return []string{"dedicated", "disktype", "tier", "example.com/rack", "example.com/team"}
}

func protectedKeys() []string {
	return []string{"node-role.kubernetes.io/worker", "node-role.kubernetes.io/ingress"}
}

func allKeys() []string { return slices.Concat(ordinaryKeys(), protectedKeys()) }

// kind is what an operation does.
type kind string

// The kinds.
const (
	labelling    kind = "label"
	changing     kind = "change"
	unlabelling  kind = "unlabel"
	deleting     kind = "delete"
	registering  kind = "register"
	restarting   kind = "restart the kubelet"
	noOperations      = 4 // at most so many of one Node in a part, less one
)

// operation is one thing that happens to a Node.
type operation struct {
	kind  kind
	edits map[string]answer // one PATCH
}

// part is a piece of a round: processes go up and down while operations run.
type part struct {
	webhook, capture               bool // up at the end of the part
	restartWebhook, restartCapture bool // down and up again, where they were and stay up
	killWebhook                    bool // in place of a polite stop
	pauseCapture                   bool // where it is up and stays up: it stands still until the next part is under way
	operations                     [][]operation
	early                          []bool // by Node: does not wait until the processes are where they go
}

// script is everything that happens: rounds of parts. At the end of each round all is up.
type script [][]part

// write makes the script of a seed; equal arguments make equal scripts. If slow is true, capture is paused at times while it is up.
func write(seed uint64, nodes, rounds int, slow bool) script {
	w := newWriter(seed, nodes, slow)
	all := make(script, rounds)
	for r := range all {
		all[r] = w.round()
	}
	return all
}

func newWriter(seed uint64, nodes int, slow bool) *writer {
	w := &writer{random: rand.New(rand.NewPCG(seed, 0)), nodes: make([]imagined, nodes), slow: slow}
	for n := range w.nodes {
		w.nodes[n].labels = map[string]bool{}
	}
	return w
}

func (w *writer) round() []part {
	round := make([]part, 1+w.random.IntN(3))
	for p := range round {
		round[p] = w.part()
		round[p].pauseCapture = w.slow && w.chance(0.4)
	}
	if w.slow && len(round) > 1 && w.chance(0.4) {
		captureIsSlow(&round[0], &round[1])
	}
	return round
}

type writer struct {
	random *rand.Rand
	nodes  []imagined
	slow   bool
	fresh  int
}

// imagined is a Node as the script has it.
type imagined struct {
	exists bool
	labels map[string]bool
}

func (w *writer) part() part {
	p := part{
		webhook: w.chance(0.6), capture: w.chance(0.6),
		restartWebhook: w.chance(0.2), restartCapture: w.chance(0.2), killWebhook: w.chance(0.3),
		operations: make([][]operation, len(w.nodes)), early: make([]bool, len(w.nodes)),
	}
	for n := range w.nodes {
		p.early[n] = w.chance(0.5)
		for range w.random.IntN(noOperations) {
			if op, ok := w.operation(&w.nodes[n]); ok {
				p.operations[n] = append(p.operations[n], op)
			}
		}
	}
	return p
}

// captureIsSlow has Nodes deleted while only capture watches, and capture is paused. The Nodes register at a webhook that does not know of the
// deletions yet.
func captureIsSlow(first, second *part) {
	first.webhook, second.webhook = false, true
	first.capture, second.capture = true, true
	first.restartCapture, second.restartCapture = false, false
	first.pauseCapture = true
}

func (w *writer) operation(node *imagined) (op operation, ok bool) {
	if !node.exists {
		node.exists = w.chance(0.75)
		return operation{kind: registering}, node.exists
	}
	switch {
	case w.chance(0.28):
		node.exists = false
		return operation{kind: deleting}, true
	case w.chance(0.15):
		return operation{kind: restarting}, true
	default:
		return w.edit(node), true
	}
}

// edit changes one label, or two at once. The kind is that of the last one.
func (w *writer) edit(node *imagined) operation {
	op := operation{edits: map[string]answer{}}
	keys := allKeys()
	for range 1 + w.random.IntN(10)/7 {
		key := keys[w.random.IntN(len(keys))]
		switch ok := node.labels[key]; {
		case ok && w.chance(0.4), !ok && w.chance(0.1):
			op.kind, op.edits[key] = unlabelling, absent
			delete(node.labels, key)
		case ok:
			op.kind, op.edits[key] = changing, w.value()
		default:
			op.kind, op.edits[key] = labelling, w.value()
			node.labels[key] = true
		}
	}
	return op
}

// value is mostly one that was never there before, so that a restored value shows where it comes from.
func (w *writer) value() answer {
	switch {
	case w.chance(0.1):
		return ""
	case w.chance(0.15):
		return "a"
	}
	w.fresh++
	return answer(fmt.Sprintf("v%d", w.fresh))
}

func (w *writer) chance(p float64) bool { return w.random.Float64() < p }
