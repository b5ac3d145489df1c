//go:build oldcore

package capture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// story is what may happen in one world, and how often. The fractions are chances.
type story struct {
	names         []string
	keys          int // how many of simKeys people use
	rounds, steps int
	webhooks      int
	captures      int  // how many processes of capture there may be at a time
	twoLeaders    bool // two of them may lead for a moment
	gatePolicy    bool
	guards        bool // policies keep kubelets from nodekeep's annotations
	policy        string
	rule          bool // a taint follows a label

	finalizers, ownLabels, otherCreators, kubeletGates float64
	lags, coalesce, interleave, crashes, errors        float64
	denials, otherMachines, vetoes, lateWrites         float64

	sweeps    bool // records of Nodes that are gone are collected
	retention string

	waits bool // capture waits before it writes a record of a busy Node, or sets again what another client undid
}

func newStory(rng *rand.Rand) story {
	some := func(chance, most float64) float64 {
		if rng.Float64() < chance {
			return rng.Float64() * most
		}
		return 0
	}
	s := story{
		names: []string{"n1"}, keys: 1 + rng.IntN(len(simKeys)), rounds: 1 + rng.IntN(4), steps: 10 + rng.IntN(110),
		webhooks: 1 + rng.IntN(2), captures: 1 + rng.IntN(2), twoLeaders: rng.IntN(2) == 0, gatePolicy: rng.IntN(3) > 0, guards: rng.IntN(3) > 0,
		finalizers: some(.4, .8), ownLabels: some(.5, .6), otherCreators: some(.3, .5), kubeletGates: some(.3, 1),
		lags: some(.5, .7), coalesce: some(.4, .7), interleave: some(.7, .6), crashes: some(.4, .1), errors: some(.4, .3),
	}
	s.policy = []string{"{}", "{}", "{}", "{onConflict: restoreStored}", "{protected: never}"}[rng.IntN(5)]
	s.denials, s.otherMachines = some(.3, .3), some(.2, .8)
	s.vetoes, s.lateWrites = some(.3, .5), some(.3, .5)
	s.rule = rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		s.names = append(s.names, "n2")
	}
	s.sweeps, s.retention = rng.IntN(2) == 0, keptForEver
	if s.sweeps && rng.IntN(3) == 0 {
		s.retention = keptShortly
	}
	s.waits = s.steps%2 == 0 // no throw of its own, so that the stories stay those that they were
	return s
}

// world is everything in a simulation. It has one thread: what happens next is a throw of the dice.
type world struct {
	story  story
	policy policy.Policy
	tape   *tape
	rng    *rand.Rand
	calm   bool // nothing more goes wrong: the end of a round
	depth  int  // of things that happen while a process waits for the API server

	version, uids, processes int
	writes                   int // by capture, of Nodes and records
	nodes                    map[string]*simNode
	log                      []nodeEvent
	skipped                  bool // a watch has left something out, so that a change may have gone unnoticed till the next look
	known                    int  // how much of the log some process of capture has seen
	records                  *store.Memory
	history                  map[string][]store.Entry
	edits                    []simEdit
	denied                   string // the label that the API server will not have from capture
	refused                  map[types.UID][]string
	refusedOf                map[simLabel]bool

	reviewing bool            // a deletion
	delays    int             // how often capture had to wait
	waited    time.Duration   // beside the hours, until what had to wait could be done
	hours     int             // that have passed
	bereft    map[string]bool // Nodes whose record was removed when they were there already
	late      []func()        // writes whose clients have given up on them
	webhooks  []*simWebhook
	captures  []*simCapture
	model     *simModel
	steps     []step

	telling bool
	told    []string
	failure string
}

// step is something that may happen, and how likely it is beside the others.
type step struct {
	weight int
	name   string
	happen func()
}

// violation is what a simulation ends with when a promise is broken.
type violation string

func newWorld(seed uint64, throws *tape) *world {
	w := &world{
		story: newStory(rand.New(rand.NewPCG(seed, 1))), tape: throws, rng: rand.New(throws), version: 5,
		nodes: map[string]*simNode{}, refused: map[types.UID][]string{}, refusedOf: map[simLabel]bool{}, bereft: map[string]bool{}, records: &store.Memory{}, history: map[string][]store.Entry{}, model: newSimModel(),
	}
	var err error
	rules := ""
	if w.story.rule {
		rules = ruleText
	}
	w.policy, err = policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: "+w.story.policy+"\ntaints: {rules: ["+rules+"]}\nretention: "+w.story.retention), policy.DefaultGate)
	if err != nil {
		panic(err)
	}
	for range w.story.webhooks {
		w.webhooks = append(w.webhooks, &simWebhook{heard: map[string]int{}, own: map[string]int{}})
	}
	w.steps = slices.Concat(w.peopleSteps(), w.webhookSteps(), w.captureSteps(), w.sweepSteps())
	return w
}

// play is one story from its beginning to its end; it panics with a violation.
func (w *world) play() {
	w.say("story:   %+v", w.story)
	for range w.story.rounds {
		for range w.story.steps {
			if w.tape.ended() {
				break
			}
			w.step()
		}
		w.rest()
	}
	for _, name := range w.story.names { // every Node comes back once more, and everything must be there
		if n := w.nodes[name]; n != nil {
			w.remove(n)
			w.say("someone: removes %s", brief(n))
		}
	}
	w.rest()
	if w.story.sweeps {
		w.calm = true
		w.anHourPasses()
		w.sweep()
		w.calm = false
	}
	for _, name := range w.story.names {
		w.register(name)
	}
	w.rest()
}

func (w *world) step() {
	total := 0
	for _, s := range w.steps {
		total += s.weight
	}
	at := w.rng.IntN(total)
	for _, s := range w.steps {
		if at -= s.weight; at < 0 {
			s.happen()
			return
		}
	}
}

func (w *world) captureSteps() []step {
	any := func(do func(*simCapture)) func() {
		return func() {
			if len(w.captures) > 0 {
				do(w.captures[w.rng.IntN(len(w.captures))])
			}
		}
	}
	return []step{
		{4, "capture starts", func() {
			if len(w.captures) < w.story.captures {
				w.start()
			}
		}},
		{2, "capture dies", any((*simCapture).die)},
		{5, "capture leads", any(func(c *simCapture) {
			if !c.leads() && (w.leaders() == 0 || w.story.twoLeaders) {
				w.lead(c)
			}
		})},
		{30, "node event", any(func(c *simCapture) { c.hearNext() })},
		{2, "relist", any((*simCapture).relist)},
		{10, "record event", any(func(c *simCapture) { c.hearRecord(w.anyName()) })},
		{30, "work", any(func(c *simCapture) { c.work() })},
		{3, "retry", any(func(c *simCapture) { c.queue.retry() })},
	}
}

func (w *world) lead(c *simCapture) {
	w.say("capture: %d leads", c.id)
	c.controller.Lead()
}

func (w *world) leaders() (leaders int) {
	for _, c := range w.captures {
		if c.leads() {
			leaders++
		}
	}
	return leaders
}

// rest is the end of a round: all processes are up, everything is heard and dealt with, and then checked.
func (w *world) rest() {
	w.say("rest:    everything comes up and is dealt with")
	w.calm = true
	defer func() { w.calm = false }()
	leader := w.oneLeader()
	for len(w.late) > 0 {
		w.landLate()
	}
	for _, h := range w.webhooks {
		h.down, h.stale = false, false
		for name, history := range w.history {
			h.heard[name] = len(history)
		}
	}
	w.drain()
	if w.story.denials > 0 {
		w.denied = ""
		w.say("rest:    the API server refuses no label any more, and the policy changes")
		leader.controller.EnqueueAll()
		w.drain()
	}
	if w.skipped {
		w.say("rest:    a watch has left something out; everything is looked at again")
		leader.controller.EnqueueAll()
		w.drain()
		w.skipped = false
	}
	for _, h := range w.webhooks {
		for name, history := range w.history {
			h.heard[name] = len(history)
		}
	}
	w.check(leader)
	writes := w.writes
	w.say("rest:    everything is looked at once more")
	leader.controller.EnqueueAll()
	w.drain()
	if w.writes != writes {
		w.fail("a second look at everything wrote something")
	}
	w.forgeReviews(leader)
	w.known = len(w.log)
}

// oneLeader leaves one leading process, the last that began to lead.
func (w *world) oneLeader() *simCapture {
	if len(w.captures) == 0 {
		w.start()
	}
	if w.leaders() == 0 {
		w.lead(w.captures[w.rng.IntN(len(w.captures))])
	}
	for w.leaders() > 1 {
		i := slices.IndexFunc(w.captures, (*simCapture).leads)
		w.captures[i].die()
	}
	return w.captures[slices.IndexFunc(w.captures, (*simCapture).leads)]
}

// drain lets everything be heard and dealt with.
func (w *world) drain() {
	for range 1000 {
		busy := false
		for _, c := range w.captures {
			for c.hearNext() {
				busy = true
			}
			for _, name := range w.story.names {
				for c.hearRecord(name) {
					busy = true
				}
			}
			c.queue.retry()
			busy = c.work() || busy
		}
		if !busy {
			return
		}
	}
	w.fail("capture never comes to an end")
}

func (w *world) chance(of float64) bool { return of > 0 && w.rng.Float64() < of }

// lag is how much of something a late listener has not heard yet.
func (w *world) lag(of int) int {
	lag := 0
	for lag < of && w.chance(w.story.lags) {
		lag++
	}
	return lag
}

func (w *world) anyName() string { return w.story.names[w.rng.IntN(len(w.story.names))] }

// recordOf is the record as the API server has it.
func (w *world) recordOf(node string) (store.Record, bool) {
	history := w.history[node]
	if len(history) == 0 {
		return store.Record{}, false
	}
	last := history[len(history)-1] // without a version, it was removed
	return last.Record, last.Version != ""
}

func (w *world) rememberedOf(node string) map[string]string {
	record, _ := w.recordOf(node)
	return record.Remembered()
}

func (w *world) fail(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

// say adds a line to the story, if somebody will read it.
func (w *world) say(format string, args ...any) {
	if w.telling {
		w.told = append(w.told, strings.Repeat("    ", w.depth)+fmt.Sprintf(format, args...))
	}
}

// brief describes a Node or a record in a few words.
type briefly interface{ *simNode | store.Record }

func brief[T briefly](of T) string {
	switch of := any(of).(type) {
	case *simNode:
		words := []string{fmt.Sprintf("%s uid %s@%d", of.name, of.uid, of.version)}
		for _, key := range slices.Sorted(maps.Keys(of.labels)) {
			if key != "kubernetes.io/hostname" {
				words = append(words, fmt.Sprintf("%s=%s%v", key, of.labels[key], of.owners[key]))
			}
		}
		if of.stamp != "" {
			words = append(words, of.stamp)
		}
		for _, taint := range of.taints {
			words = append(words, taint.ToString())
		}
		if of.deleting {
			words = append(words, "deleting")
		}
		return "{" + strings.Join(words, " ") + "}"
	case store.Record:
		return fmt.Sprintf("record{%s uid %s@%s %v shown %v withheld %v gone: %t}", of.Node, of.UID, of.NodeResourceVersion, of.Items, of.Shown(), of.Withheld.Items, of.DeletedAt != nil)
	}
	return ""
}
