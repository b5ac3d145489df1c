package capture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// policyInUse is a version of the policy file.
type policyInUse struct {
	policyFile
	selects [keyCount]bool
	text    string
}

// cluster is everything in a simulation. It has one thread: draws decide what happens next.
type cluster struct {
	scenario scenario
	draws    *draws
	rng      *rand.Rand
	calm     bool // nothing more goes wrong: the end of a round
	depth    int  // of steps that happen while a process waits for the API server

	version, processes int
	writes             int // by nodekeep, of Nodes and records
	nodes              map[string]*node
	logs               map[string]*nodeLog
	events             []*node // of the watch
	byVersion          map[int]*node
	known              int // how many events some process of capture has received
	records            *recordStore
	history            map[string][]recordEntry // all records that were written; without a version: it was removed
	edits              []simEdit
	denied             string // the label that the API server refuses from capture
	refusals           int
	policies           []*policyInUse // the last one is in the file

	reviewing bool          // a deletion
	delays    int           // how often capture had to wait
	waited    time.Duration // besides the hours, until what had to wait could be done
	hours     int           // that have passed
	late      []func()      // writes whose clients have given up
	webhooks  []*webhookReplica
	captures  []*process
	steps     []step

	excuses, shows [oracle.Excuses]int // how often each excuse was needed: for the record, and for what a Node shows

	telling bool
	lines   []string
	failure string
}

// step is something that may happen, and how likely it is compared to others.
type step struct {
	weight int
	name   string
	run    func()
}

// violation is the panic of a simulation when a promise is broken.
type violation string

func newCluster(seed uint64, d *draws) *cluster {
	w := &cluster{
		scenario: newScenario(rand.New(rand.NewPCG(seed, 1))), draws: d, rng: rand.New(d), version: 5,
		nodes: map[string]*node{}, logs: map[string]*nodeLog{}, byVersion: map[int]*node{},
		records: &recordStore{}, history: map[string][]recordEntry{},
	}
	for _, name := range w.scenario.names {
		w.logs[name] = &nodeLog{remembered: map[int]map[string]string{}}
	}
	w.policies = []*policyInUse{newPolicy(w.scenario, nil, -1, w.scenario.rules)}
	for range w.scenario.webhooks {
		w.webhooks = append(w.webhooks, &webhookReplica{received: map[string]int{}, pendingWrites: map[string]int{}, policy: w.policies[0]})
	}
	w.steps = slices.Concat(w.clientSteps(), w.kubeletSteps(), w.webhookSteps(), w.captureSteps(), w.collectSteps())
	return w
}

// newPolicy returns a policy that selects all keys but one, if any.
func newPolicy(s scenario, prev *policyFile, ignored int, rules bool) *policyInUse {
	in := &policyInUse{}
	labels, taints := []string{}, []string{}
	if s.labels != "" {
		labels = append(labels, s.labels)
	}
	for k := range in.selects {
		in.selects[k] = k != ignored
	}
	if ignored >= 0 {
		if key := keys[ignored]; isTaintKey(ignored) {
			taints = append(taints, "ignore: ["+strings.Split(key, ":")[0]+"]")
		} else {
			labels = append(labels, "ignore: ["+key+"]")
		}
	}
	if rules {
		taints = append(taints, "rules: [{selector: team, taint: 'team={value}:NoSchedule'}]")
	}
	in.text = "labels: {" + strings.Join(labels, ", ") + "}\ntaints: {" + strings.Join(taints, ", ") + "}\nretention: " + s.retention
	in.policyFile = loadPolicy(in.text, prev)
	return in
}

// play is one scenario from its beginning to its end; it panics with a violation.
func (w *cluster) play() {
	w.say("scenario: %+v", w.scenario)
	for _, name := range w.scenario.names {
		if w.chance(w.scenario.foreign) {
			w.restoreForeignRecord(name)
		}
	}
	for range w.scenario.rounds {
		for range w.scenario.steps {
			if w.draws.ended() {
				break
			}
			w.step()
		}
		w.rest()
	}
	for _, name := range w.scenario.names { // every Node registers once more
		if n := w.nodes[name]; n != nil {
			w.remove(n)
			w.say("cluster: removes %s", n.describe())
		}
	}
	w.rest()
	if w.scenario.collects {
		w.calm = true
		w.anHourPasses()
		w.collect()
		w.calm = false
	}
	for _, name := range w.scenario.names {
		w.register(name)
	}
	w.rest()
}

// restoreForeignRecord puts a record into the cluster that another one wrote, as from a backup.
func (w *cluster) restoreForeignRecord(name string) {
	log := w.logs[name]
	items := map[string]string{}
	for _, k := range w.scenario.keys {
		if w.chance(.6) {
			items[keys[k]] = w.anyValue()
			log.settled[k] = valueOf(items[keys[k]])
		}
	}
	if len(items) == 0 {
		return
	}
	r := foreignRecord(name, items, w.chance(.5))
	entry, err := w.records.Put(context.Background(), r, "")
	if err != nil {
		panic(err)
	}
	w.history[name] = append(w.history[name], entry)
	log.remembered[0] = r.Items()
	w.say("operator: restores from a backup of another cluster %s", describeRecord(r))
}

func (w *cluster) step() {
	total := 0
	for _, s := range w.steps {
		total += s.weight
	}
	i := w.rng.IntN(total)
	for _, s := range w.steps {
		if i -= s.weight; i < 0 {
			s.run()
			return
		}
	}
}

// rest is the end of a round: all processes are up and have nothing left to do. Then it checks.
func (w *cluster) rest() {
	w.say("rest: everything comes up and is reconciled")
	w.calm = true
	defer func() { w.calm = false }()
	w.oneLeader()
	for len(w.late) > 0 {
		w.landLate()
	}
	for _, h := range w.webhooks {
		h.stopped, h.stale = false, false
		h.policy = w.policies[len(w.policies)-1]
		h.receiveAll(w)
	}
	for _, c := range w.captures {
		c.reload()
	}
	if w.denied != "" {
		w.denied = ""
		w.say("rest: the API server refuses no label any more")
	}
	w.drain()
	for _, h := range w.webhooks {
		h.receiveAll(w)
	}
	w.check()
	writes := w.writes
	w.say("rest: everything is reconciled once more")
	if w.reconcileAll(); w.writes != writes {
		w.fail("second reconcile of everything wrote something")
	}
	w.forgeReviews()
	w.known = len(w.events)
}

func (w *cluster) reconcileAll() {
	for _, c := range w.captures {
		c.Resync()
	}
	w.drain()
}

// oneLeader leaves one leading process.
func (w *cluster) oneLeader() {
	if len(w.captures) == 0 {
		w.start()
	}
	if w.leaders() == 0 {
		w.lead(w.captures[w.rng.IntN(len(w.captures))])
	}
	for w.leaders() > 1 {
		w.captures[slices.IndexFunc(w.captures, func(c *process) bool { return c.Leads() })].die()
	}
}

// drain delivers everything and has it reconciled.
func (w *cluster) drain() {
	for range 1000 {
		busy := false
		for _, c := range slices.Clone(w.captures) {
			for c.receiveNode() {
				busy = true
			}
			for _, name := range w.scenario.names {
				for c.receiveRecord(name) {
					busy = true
				}
			}
			c.retry()
			busy = c.work() || busy
		}
		if !busy {
			return
		}
	}
	w.fail("capture never comes to an end")
}

func (w *cluster) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// lag returns how much of something a late reader has not received yet.
func (w *cluster) lag(total int) int {
	lag := 0
	for lag < total && w.chance(w.scenario.lags) {
		lag++
	}
	return lag
}

func (w *cluster) anyName() string { return w.scenario.names[w.rng.IntN(len(w.scenario.names))] }

// now returns the time in the scenario; it stands still but for hours and waits.
func (w *cluster) now() time.Time {
	return epoch.Add(time.Duration(w.hours)*time.Hour + w.waited)
}

// recordOf returns the record as the API server has it.
func (w *cluster) recordOf(name string) (recorded, bool) {
	history := w.history[name]
	if len(history) == 0 {
		return recorded{}, false
	}
	last := history[len(history)-1]
	return last.Record, last.Version != ""
}

func (w *cluster) rememberedOf(name string) map[string]string {
	r, _ := w.recordOf(name)
	return remembered(r)
}

// excused counts an excuse.
func (w *cluster) excused(name string, excuse oracle.Excuse) {
	w.excuses[excuse]++
	if excuse != oracle.Promised {
		w.say("rest: %s: %s", name, excuse)
	}
}

func (w *cluster) fail(format string, args ...any) {
	if w.failure == "" { // a panic may be recovered on the way
		w.failure = fmt.Sprintf(format, args...)
	}
	panic(violation(w.failure))
}

// say adds a line to the event log, if anybody will read it.
func (w *cluster) say(format string, args ...any) {
	if w.telling {
		w.lines = append(w.lines, strings.Repeat("    ", w.depth)+fmt.Sprintf(format, args...))
	}
}

func newUID(number int) types.UID { return types.UID(fmt.Sprint(number)) }
