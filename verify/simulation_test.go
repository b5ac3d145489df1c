package verify_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/verify"
)

// How much TestSimulationOfThePlan does, from the environment.
const (
	scenariosVariable = "NODEKEEP_SIMULATION_SCENARIOS" // how many
	firstVariable     = "NODEKEEP_SIMULATION_FIRST"     // the seed of the first one
	usualScenarios    = 2000
)

func setting(variable string, usual uint64) uint64 {
	if value, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return value
	}
	return usual
}

// Two controllers with stale views crash between any two writes; kubelets are slow, fail, and fake; Nodes are deleted, register again, reboot, and get the
// taint again. The model checks each write as it is made, and at the end that every Node is decided. The long form:
//
//	NODEKEEP_SIMULATION_SCENARIOS=100000 go test -count=1 -timeout 0 -v -run TestSimulationOfThePlan ./verify
func TestSimulationOfThePlan(t *testing.T) {
	first, scenarios := setting(firstVariable, 0), setting(scenariosVariable, usualScenarios)
	totals, mostPods := map[string]int{}, 0
	for seed := first; seed < first+scenarios; seed++ {
		m := newModel(seed)
		m.run()
		if len(m.wrong) > 0 {
			t.Fatalf("seed %d: %v\n%s=%d %s=1 repeats it", seed, m.wrong[0], firstVariable, seed, scenariosVariable)
		}
		for subject, times := range m.totals {
			totals[subject] += times
		}
		mostPods = max(mostPods, m.mostPods)
	}
	t.Logf("%d scenarios, at most %d Pods: %v", scenarios, mostPods, totals)
	if scenarios < usualScenarios {
		return
	}
	for _, subject := range []string{
		"Holds", "Unholds", "Outages", "Opened", "Freed", "Conflicts", "Crashes", "Recorded", "Fakes", "Retaints", "Shared", "Controls", "Removed", "HeldRemovals", "Noted", "Forged", "Waited",
		"Rechecks", "Stripped", "Requests", "Asked", "Braked",
	} {
		assert.Positive(t, totals[subject], "the scenarios must reach everything, also %s", subject)
	}
}

// modelNode is a Node as the API server has it, and what is true of it.
type modelNode struct {
	verify.Node
	version  int
	epoch    int  // how often the taint was added
	faked    bool // its kubelet wrote the annotation, or another client removed the taint: rounds are not known then
	broken   bool // checks fail on it
	hostile  bool
	occupied bool   // a Pod runs on it that is not of a DaemonSet
	wasOpen  bool   // this object had no taint of verification before
	checked  string // the boot that was checked, when the taint was added because the Node was not Ready
}

type modelPod struct {
	verify.Pod
	node    string
	control string // what a control Pod is for; empty: a worker Pod
	forged  bool   // another client created it
	epoch   int    // of the Node when it was created
	age     int    // what its kubelet has done for it
}

// model is a cluster: what the API server has, and the log of it that the controllers watch.
type model struct {
	rng         *rand.Rand
	now         time.Time
	profiles    [2]verify.Profiles // of the policy before and after a change
	nodes       map[string]*modelNode
	pods        map[string]*modelPod
	log         []logged
	serial      int
	inFlight    int
	hosts       map[string]string // of every Pod that ever was
	controllers []*modelController
	leaders     int // how many act at once
	lags        bool
	crashes     bool
	evicts      bool
	fault       bool // the checks fail on every Node
	ledger      verify.Ledger
	written     int                  // how often the ledger was written
	removed     []verify.Removal     // what was removed, and when
	shared      map[string]time.Time // when a failure of a profile was last found to be shared
	wrong       []error
	totals      map[string]int // how often the scenario reached what
	mostPods    int
}

// logged is an object after a change; both are nil after a deletion.
type logged struct {
	name     string
	nodeName string // the Node of a Pod
	node     *modelNode
	pod      *modelPod
	pods     bool
}

// modelController is one process: what it has observed, and its memory.
type modelController struct {
	*model
	policy   int
	read     int // entries of the log
	nodes    map[string]modelNode
	pods     map[string]modelPod
	memory   map[string]*verify.Observed // by uid: Held, Started, Own, Opened
	controls map[string]modelPod         // control Pods that the process created, as they were created
	starts   *verify.Starts
	outage   verify.Outage
	brakes   map[string]map[verify.BrakeReason]time.Time // by profile, as verify/controller keeps them
	nested   bool                                        // this work came between two writes of another process
	closing  map[string]bool                             // uids of Nodes that it closed to check them again, until it observes that
	able     [2]map[string]bool                          // by policy and Node, as it observes it: whether a control Pod can run there
}

func modelProfiles(rng *rand.Rand, timeout string) verify.Profiles {
	onTimeout := verify.Keep
	if rng.IntN(3) == 0 {
		onTimeout = verify.Release
	}
	reverify := verify.NeverReverify
	if rng.IntN(2) == 0 {
		reverify = verify.OnReboot
	}
	onFailure := verify.KeepNode
	if rng.IntN(2) == 0 {
		onFailure = verify.RemoveNode
	}
	stopAbove := intstr.FromString([]string{"30%", "50%", "100%"}[rng.IntN(3)])
	profiles, errs := verify.Compile(verify.Settings{
		Limits: verify.Limits{StopAbove: &stopAbove, DeletionsPerHour: new(1 + rng.IntN(3))},
		Profiles: []verify.Profile{{
			Name: "all", NodeSelector: "pool notin (none,waits)", Checks: []verify.Check{{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}},
			Timeout: timeout, StartTimeout: "20s", Attempts: verify.Attempts{Max: new(1 + rng.IntN(3)), Backoff: "5s", MaxBackoff: "20s"}, Deadline: "2m", OnTimeout: onTimeout, Reverify: reverify, OnFailure: onFailure,
		}, {
			Name: "waits", NodeSelector: "pool=waits", Deadline: "2m", OnTimeout: onTimeout, Wait: verify.Wait{Conditions: map[string]verify.ConditionStatus{"Warm": "True"}},
		}},
	}, field.NewPath("verify"))
	if len(errs) > 0 {
		panic(errs.ToAggregate())
	}
	profiles.Start = verify.Start{PerSecond: 1 + rng.IntN(5), InFlight: 1 + rng.IntN(4)}
	profiles.Limits.Percent, profiles.Limits.Spread = []int{20, 50, 100}[rng.IntN(3)], []time.Duration{time.Minute, 2 * time.Minute, 10 * time.Minute}[rng.IntN(3)]
	return profiles
}

func emptyModel(rng *rand.Rand) *model {
	return &model{
		rng: rng, now: time.Unix(1_700_000_000, 0), nodes: map[string]*modelNode{}, pods: map[string]*modelPod{}, hosts: map[string]string{},
		shared: map[string]time.Time{}, totals: map[string]int{},
	}
}

func newModel(seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 17))
	m := emptyModel(rng)
	profiles := modelProfiles(rng, "10s")
	m.profiles = [2]verify.Profiles{profiles, profiles}
	if rng.IntN(3) == 0 {
		m.profiles[1] = modelProfiles(rng, "11s")
		m.profiles[1].Start, m.profiles[1].Limits = profiles.Start, profiles.Limits
	}
	m.inFlight = profiles.Start.InFlight
	m.evicts, m.leaders, m.lags, m.crashes = true, 1+rng.IntN(2), rng.IntN(3) > 0, rng.IntN(2) == 0
	for range 2 {
		c := &modelController{model: m}
		c.restart()
		m.controllers = append(m.controllers, c)
	}
	for i := range 1 + rng.IntN(6) {
		m.register(fmt.Sprint("n", i))
	}
	return m
}

// register creates a Node of this name in place of the one that is there.
func (m *model) register(name string) {
	m.serial++
	node := &modelNode{version: m.serial, epoch: 1, broken: m.rng.IntN(3) == 0, hostile: m.rng.IntN(4) == 0}
	node.Node = verify.Node{
		Name: name, UID: fmt.Sprint("uid-", m.serial), Created: m.now, ReadySince: m.now, Ready: m.rng.IntN(2) == 0, BootID: "b1", Labels: map[string]string{},
		Taints: []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}},
	}
	if node.hostile && m.rng.IntN(2) == 0 { // a kubelet may register its Node with taints
		node.Taints[0].Value = "reboot-0123456789abcdef-0123456789abcdef"
	}
	if m.chance(6) {
		node.Labels["pool"] = "waits"
	}
	if m.rng.IntN(3) == 0 {
		node.Taints = append(node.Taints, corev1.Taint{Key: gate, Effect: corev1.TaintEffectNoSchedule})
	}
	m.nodes[name] = node
	m.wrote(name)
}

const gate = "nodekeep.dev/restoring"

func isOurs(taint corev1.Taint) bool { return taint.Key == verify.Taint }

func isGate(taint corev1.Taint) bool { return taint.Key == gate }

var modelCluster = verify.Cluster{Gate: gate, DNS: "kube-system/kube-dns"}

// wrote logs a Node as it is now.
func (m *model) wrote(name string) {
	node, ok := m.nodes[name]
	if !ok {
		m.log = append(m.log, logged{name: name, nodeName: name})
		return
	}
	m.serial++
	node.version = m.serial
	node.wasOpen = node.wasOpen || !slices.ContainsFunc(node.Taints, isOurs)
	observed := *node
	observed.Taints = slices.Clone(node.Taints)
	m.log = append(m.log, logged{name: name, nodeName: name, node: &observed})
}

func (m *model) wrotePod(name string) {
	if pod, ok := m.pods[name]; ok {
		observed := *pod
		observed.Containers = slices.Clone(pod.Containers)
		m.log = append(m.log, logged{name: name, nodeName: pod.node, pod: &observed, pods: true})
	} else {
		m.log = append(m.log, logged{name: name, nodeName: m.hosts[name], pods: true})
	}
	m.mostPods = max(m.mostPods, len(m.pods))
	// Each process that leads keeps the limit by itself. Of two at once, which the Lease allows for a moment only, each may not see the other's.
	workers, controls := m.count()
	if limit := m.inFlight * m.leaders; workers > limit {
		m.fail("%d worker Pods, more than %d", workers, limit)
	}
	if limit := 2 * 2 * m.leaders; controls > limit && !m.lags { // two of the profile of each policy
		m.fail("%d control Pods run, more than %d", controls, limit)
	}
}

// count counts worker Pods, and control Pods that run.
func (m *model) count() (workers, controls int) {
	for _, pod := range m.pods {
		switch {
		case pod.forged:
		case pod.control == "":
			workers++
		case !pod.Ended():
			controls++
		}
	}
	return workers, controls
}

func (m *model) fail(format string, values ...any) {
	m.wrong = append(m.wrong, fmt.Errorf(format, values...))
}

// chance is true in one of so many cases.
func (m *model) chance(total int) bool { return m.rng.IntN(total) == 0 }

func (m *model) anyNode() string {
	names := m.nodesByName()
	if len(names) == 0 {
		return ""
	}
	return names[m.rng.IntN(len(names))]
}

func (m *model) nodesByName() []string { return slices.Sorted(maps.Keys(m.nodes)) }

func (m *model) podNames() []string { return slices.Sorted(maps.Keys(m.pods)) }

func (m *model) run() {
	for range 60 + m.rng.IntN(200) {
		switch m.rng.IntN(12) {
		case 0, 1:
			m.now = m.now.Add(time.Duration(m.rng.IntN(6000)) * time.Millisecond)
		case 2:
			m.disturb()
		case 3, 4, 5:
			m.kubelets()
		default:
			c := m.controllers[m.rng.IntN(m.leaders)]
			c.observe(!m.lags)
			if name := m.anyNode(); name != "" {
				c.work(name)
			}
			c.grant()
		}
		if len(m.wrong) > 0 {
			return
		}
	}
	m.settle()
}

// disturb lets something happen to a Node that nodekeep does not do.
func (m *model) disturb() {
	name := m.anyNode()
	if name == "" {
		m.register("n0")
		return
	}
	node := m.nodes[name]
	held := slices.ContainsFunc(node.Taints, isOurs)
	switch m.rng.IntN(25) {
	case 24: // an operator has the Node checked at once
		if held {
			node.Annotation = verify.ParseProgress(node.Annotation).RestartClosed(m.now).String()
			m.totals["Asked"]++
		}
	case 23: // the component that writes the condition Warm
		node.Conditions = map[string]corev1.ConditionStatus{"Warm": []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[m.rng.IntN(2)]}
	case 22: // another client asks for a check
		node.Request = fmt.Sprint("request-", m.rng.IntN(3))
		m.totals["Requests"]++
	case 20, 21: // another client removes the labels of all Nodes, or of one
		all := m.chance(4)
		for _, second := range m.nodesByName() {
			if item := m.nodes[second]; (all || second == name) && item.Labels[verify.Label] != "" {
				item.Labels = maps.Clone(item.Labels)
				delete(item.Labels, verify.Label)
				m.totals["Stripped"]++
				m.wrote(second)
			}
		}
		return
	case 19: // a client that may create Pods in the namespace of the checks
		m.forge(name)
		return
	case 18: // a Pod that tolerates the taint comes, or goes
		node.occupied = !node.occupied
		return
	case 16, 17: // DNS goes down for all, or returns
		m.fault = !m.fault
		return
	case 0: // deleted; it may register again
		delete(m.nodes, name)
		m.wrote(name)
		if m.chance(2) {
			m.register(name)
		}
		return
	case 1, 2:
		node.turns(!node.Ready, m.now)
	case 3:
		node.broken = !node.broken
		return
	case 4:
		node.BootID += "+"
	case 5, 6: // an operator adds the taint
		if !held {
			node.Taints = append(node.Taints, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
			node.epoch++
			m.totals["Retaints"]++
		}
	case 7: // another client removes it
		if held {
			node.Taints = slices.DeleteFunc(node.Taints, isOurs)
			node.faked = true
		}
	case 8:
		if node.hostile {
			node.faked = true
			m.totals["Fakes"]++
			node.Annotation = []string{
				"", "{", `{"round":0,"attempts":0}`, `{"round":1000000,"attempts":1000000,"last":{"time":"2999-01-01T00:00:00Z"}}`, `{"round":-5}`,
				verify.Progress{Round: m.rng.IntN(3), Attempts: m.rng.IntN(4), Hash: m.profiles[0].All()[0].Hash, BootID: node.BootID,
					Last: &verify.Last{Result: verify.VerdictPassed, Time: m.now}}.String(),
			}[m.rng.IntN(6)]
		}
	case 9:
		node.Taints = slices.DeleteFunc(node.Taints, isGate)
	case 10: // the policy changes; the processes read it at different times
		m.controllers[m.rng.IntN(2)].policy = m.rng.IntN(2)
		return
	case 11:
		if node.Labels["pool"] == "" && m.chance(3) {
			node.Labels = map[string]string{"pool": "none"}
		} else {
			node.Labels = map[string]string{}
			if m.chance(6) {
				node.Labels["pool"] = "waits"
			}
		}
	case 12: // a process is killed
		m.totals["Crashes"]++
		m.controllers[m.rng.IntN(2)].restart()
		return
	case 13: // power is cut, and returns
		if m.chance(8) {
			for _, name := range m.nodesByName() {
				item := m.nodes[name]
				if item.Ready {
					item.BootID += "!"
				}
				item.turns(!item.Ready, m.now)
				m.wrote(name)
			}
		}
		return
	case 14: // a reboot that is over before anybody has observed that the Node was not Ready
		node.BootID += "+"
		node.turns(true, m.now)
	default: // a heartbeat
	}
	m.wrote(name)
}

// forge is another client that creates a Pod like a worker Pod on a Node, or like a control Pod, and has it pass or fail.
func (m *model) forge(place string) {
	node := m.nodes[place]
	m.serial++
	pod := &modelPod{node: place, forged: true, epoch: node.epoch}
	pod.Pod = verify.Pod{Name: fmt.Sprint(verify.PodPrefix, m.serial), UID: fmt.Sprint("pod-", m.serial), NodeUID: node.UID, Created: m.now}
	if m.chance(3) {
		pod.Name, pod.control = fmt.Sprint(verify.ControlPrefix, m.serial), m.profiles[0].All()[0].ControlKey()
	}
	if m.pods[pod.Name], m.hosts[pod.Name] = pod, place; m.chance(4) {
		m.end(pod, corev1.PodFailed, 1, refuses)
	} else {
		m.end(pod, corev1.PodSucceeded, 0, passes)
	}
	m.totals["Forged"]++
	m.wrotePod(pod.Name)
}

// end has the worker of a Pod end with a report.
func (m *model) end(pod *modelPod, phase corev1.PodPhase, code int, message string) {
	pod.Phase = phase
	pod.Containers = []verify.ContainerState{{Name: verify.Worker, Started: m.now, Ended: true, Finished: m.now, ExitCode: code, Reason: "Completed", Message: message}}
}

const (
	passes  = `{"results":[{"check":"dns","outcome":"passed","required":true,"millis":1}]}`
	refuses = `{"results":[{"check":"dns","outcome":"failed","required":true,"reason":"Timeout","millis":1}]}`
)

// kubelets let one worker Pod go on.
func (m *model) kubelets() {
	if names := m.podNames(); len(names) > 0 {
		m.goOn(names[m.rng.IntN(len(names))])
	}
}

func (m *model) goOn(name string) {
	pod := m.pods[name]
	node, ok := m.nodes[pod.node]
	if !ok || node.UID != pod.NodeUID { // the garbage collector
		delete(m.pods, name)
		m.wrotePod(name)
		return
	}
	if !node.Ready {
		return
	}
	if !pod.Deleted.IsZero() {
		if !node.hostile || m.chance(3) {
			delete(m.pods, name)
			m.wrotePod(name)
		}
		return
	}
	end := func(phase corev1.PodPhase, code int, message string) { m.end(pod, phase, code, message) }
	pod.age++
	switch {
	case pod.Ended():
		return
	case node.hostile && m.chance(2):
		switch m.rng.IntN(4) {
		case 0:
			end(corev1.PodSucceeded, 0, passes)
		case 1:
			end(corev1.PodSucceeded, 0, "garbage")
		case 2:
			end(corev1.PodFailed, 1, `{"results":[]}`)
		case 3:
			pod.Containers = []verify.ContainerState{{Name: verify.Worker, Started: m.now.Add(time.Hour)}}
		}
	case pod.age == 1:
		pod.Phase = corev1.PodRunning
		pod.Containers = []verify.ContainerState{{Name: verify.Worker, Started: m.now}}
	case node.broken, m.fault:
		end(corev1.PodFailed, 1, refuses)
	case m.evicts && m.chance(8):
		pod.Reason = "Evicted"
		end(corev1.PodFailed, 137, "")
	default:
		end(corev1.PodSucceeded, 0, passes)
	}
	m.wrotePod(name)
}

// restart is a process that was killed and starts again: it knows what the API server has, and nothing else.
func (c *modelController) restart() {
	c.nodes, c.pods, c.memory = map[string]modelNode{}, map[string]modelPod{}, map[string]*verify.Observed{}
	c.starts, c.controls = verify.NewStarts(c.profiles[0].Start), map[string]modelPod{}
	c.outage, c.brakes, c.closing = verify.Outage{}, map[string]map[verify.BrakeReason]time.Time{}, map[string]bool{}
	c.able = [2]map[string]bool{{}, {}}
	c.read = len(c.log)
	for name := range c.model.nodes {
		c.take(logged{name: name, node: c.model.nodes[name]})
	}
	for name := range c.model.pods {
		c.take(logged{name: name, pod: c.model.pods[name], pods: true})
	}
}

// observe reads on in the log: all of it, or some.
func (c *modelController) observe(all bool) {
	upTo := len(c.log)
	if !all {
		upTo = c.read + c.rng.IntN(upTo-c.read+1)
	}
	for ; c.read < upTo; c.read++ {
		c.take(c.log[c.read])
	}
}

// observed returns what the process itself has observed of a Node object.
func (c *modelController) observed(uid string) *verify.Observed {
	if c.memory[uid] == nil {
		c.memory[uid] = &verify.Observed{}
	}
	return c.memory[uid]
}

func (c *modelController) take(event logged) {
	for _, able := range c.able {
		delete(able, event.name)
	}
	switch {
	case event.pod != nil:
		c.pods[event.name] = *event.pod
		if event.pod.control != "" && event.pod.Ended() {
			c.starts.Gone(event.pod.UID)
		} else {
			c.starts.Exists(event.pod.UID)
		}
	case event.pods:
		c.starts.Gone(c.pods[event.name].UID)
		if c.controls[event.name].UID == c.pods[event.name].UID {
			delete(c.controls, event.name)
		}
		delete(c.pods, event.name)
	case event.node == nil:
		c.count(event.name, nil)
		delete(c.nodes, event.name)
		c.starts.Leave(event.name)
	default:
		node := *event.node
		node.Taints = slices.Clone(node.Taints)
		c.count(event.name, &node.Node)
		held := c.profiles[c.policy].ClosingTaints
		if prev, ok := c.nodes[event.name]; ok && prev.UID == node.UID && len(held(prev.Taints)) == 0 && len(held(node.Taints)) > 0 {
			c.observed(node.UID).Opened = true
		}
		c.nodes[event.name] = node
		if c.closing[node.UID] && len(held(node.Taints)) > 0 {
			delete(c.closing, node.UID)
		}
		if current := c.observed(node.UID); len(held(node.Taints)) == 0 {
			current.Held, current.Worker = time.Time{}, verify.OwnPod{}
		} else if current.Held.IsZero() {
			current.Held = c.now
		}
	}
}

// count counts who is away, as verify/controller does.
func (c *modelController) count(name string, next *verify.Node) {
	counted, absent := 0, 0
	fn := func(node *verify.Node, by int) {
		if counts, isAway := c.profiles[0].Absent(node); counts {
			counted += by
			if isAway {
				absent += by
			}
		}
	}
	if prev, ok := c.nodes[name]; ok {
		fn(&prev.Node, -1)
	}
	if next != nil {
		fn(next, 1)
	}
	if c.outage.Change(counted, absent, c.now) {
		c.totals["Outages"]++
	}
}

func (c *modelController) grant() {
	c.sweep()
	for {
		node, _ := c.starts.Next(c.now)
		if node == "" {
			return
		}
		c.work(node)
	}
}

// work plans for one Node and does what the plan says, as verify/controller does. A process may be killed before each write.
func (c *modelController) work(name string) (action verify.Action) {
	var observed verify.Observed
	node, ok := c.nodes[name]
	if ok {
		observed = *c.observed(node.UID)
		observed.Node = &node.Node
	}
	for _, pod := range c.pods {
		if pod.node == name && pod.control == "" {
			observed.Pods = append(observed.Pods, pod.Pod)
		}
	}
	slices.SortFunc(observed.Pods, func(a, b verify.Pod) int { return a.Created.Compare(b.Created) })
	profiles := c.profiles[c.policy]
	if ok {
		if profile, selected := profiles.Match(node.Labels); selected {
			observed.Control, observed.Room = c.control(profile), c.room(&node.Node, profiles)
		}
	}
	cluster := modelCluster
	cluster.OutageUntil = c.outage.End(c.now)
	action = verify.Plan(observed, profiles, cluster, c.now)
	if action.Braked {
		c.totals["Braked"]++
	}
	if action.Operation != verify.DoStart {
		c.starts.Leave(name)
	}
	if action.Operation != verify.DoNothing && action.Operation != verify.DoWait && c.crashes && c.chance(40) {
		c.totals["Crashes"]++
		c.restart()
		return action
	}
	switch action.Operation {
	case verify.DoStart:
		c.serial++
		pod := fmt.Sprint(verify.PodPrefix, c.serial)
		if !c.starts.Take(name, pod) {
			c.starts.Want(name, action.Turn())
			return action
		}
		if action.Progress.Unanswered(c.observed(node.UID).Answers) {
			c.observed(node.UID).Hurried = c.now
		}
		c.observed(node.UID).Started, c.observed(node.UID).Answers = c.now, action.Progress.Asked
		c.observed(node.UID).Worker = verify.OwnPod{UID: c.create(pod, name, ""), Attempt: action.Attempt}
	case verify.DoControl:
		c.startControl(action.Profile, action.ControlSince)
	case verify.DoDelete:
		pod, ok := c.model.pods[action.Pod.Name]
		switch {
		case !ok || pod.UID != action.Pod.UID:
			return action
		case action.Force || pod.Ended():
			delete(c.model.pods, action.Pod.Name)
		case pod.Deleted.IsZero():
			pod.Deleted = c.now.Add(time.Second)
		}
		c.wrotePod(action.Pod.Name)
	case verify.DoRemove:
		c.remove(name, node, action, observed.Control, profiles)
	case verify.DoOpen, verify.DoFree, verify.DoRecord, verify.DoClose, verify.DoNote, verify.DoShow, verify.DoHold, verify.DoUnhold, verify.DoRecheck:
		live, ok := c.model.nodes[name]
		if !ok || live.UID != node.UID || live.version != node.version {
			c.totals["Conflicts"]++
			return action
		}
		if action.Operation == verify.DoRecord {
			c.noteBrakes(action)
			c.checkCounted(action, observed.Control)
		}
		c.change(live, action, profiles)
	}
	return action
}

// control returns what the process knows of the control of a profile.
func (c *modelController) control(profile verify.CompiledProfile) verify.Control {
	control := verify.Control{Able: len(c.ableFor(profile))}
	for _, name := range slices.Sorted(maps.Keys(c.controls)) {
		pod := c.controls[name]
		if seen, ok := c.pods[name]; ok && seen.UID == pod.UID {
			pod = seen
		}
		if pod.control == profile.ControlKey() && pod.Deleted.IsZero() {
			control.Pods = append(control.Pods, verify.ControlPod{Pod: pod.Pod, Node: pod.node})
		}
	}
	return control
}

// ableFor returns the Nodes on which a control Pod of a profile can run. What the process has observed of a Node is judged once.
func (c *modelController) ableFor(profile verify.CompiledProfile) (names []string) {
	able := c.able[c.policy]
	for name, node := range c.nodes {
		if item, ok := c.profiles[c.policy].Match(node.Labels); !ok || item.Name != profile.Name {
			continue
		}
		if _, judged := able[name]; !judged {
			able[name] = c.profiles[c.policy].Controls(&node.Node)
		}
		if able[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *modelController) startControl(profile verify.CompiledProfile, start time.Time) {
	known := c.control(profile)
	able := slices.DeleteFunc(c.ableFor(profile), func(name string) bool {
		return slices.ContainsFunc(known.Asked(profile, start, c.now), func(pod verify.ControlPod) bool { return pod.Node == name })
	})
	if len(able) == 0 || !known.Due(profile, start, c.now) {
		return
	}
	name := fmt.Sprint(verify.ControlPrefix, c.serial)
	c.starts.Control(name, c.now)
	c.totals["Controls"]++
	c.create(name, able[c.rng.IntN(len(able))], profile.ControlKey())
	c.controls[name] = *c.model.pods[name]
}

// create creates a Pod on a Node that the process has observed; control is what a control Pod is for.
func (c *modelController) create(name, node, control string) (uid string) {
	c.serial++
	pod := &modelPod{node: node, control: control, Pod: verify.Pod{
		Name: name, UID: fmt.Sprint("pod-", c.serial), NodeUID: c.nodes[node].UID, Created: c.now, Phase: corev1.PodPending,
	}}
	if live, ok := c.model.nodes[node]; ok {
		pod.epoch = live.epoch
	}
	c.starts.Created(name, pod.UID, c.now)
	c.model.pods[name], c.hosts[name] = pod, node
	c.wrotePod(name)
	return pod.UID
}

// sweep deletes control Pods whose time is over, and those that the process did not create.
func (c *modelController) sweep() {
	known := map[string]verify.CompiledProfile{}
	for _, profile := range c.profiles[c.policy].All() {
		known[profile.ControlKey()] = profile
	}
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		pod := c.pods[name]
		if pod.control == "" {
			continue
		}
		ok, profile, ends := c.controls[name].UID == pod.UID, pod.control, time.Time{}
		for key, compiled := range known {
			if t := verify.ControlEnds(pod.Pod, compiled, c.now); (key == profile || !ok) && t.After(ends) {
				ends = t
			}
		}
		if ends.After(c.now) {
			continue
		}
		if ok {
			delete(c.controls, name)
		}
		if live, ok := c.model.pods[name]; ok && live.UID == pod.UID {
			delete(c.model.pods, name)
			c.wrotePod(name)
		}
	}
}

// checkCounted: an attempt that failed counts unless a verified Node was asked the same within a minute, and failed, too. A control Pod that took longer
// than a Pod may take counts as one that ended then, whatever its kubelet says.
func (c *modelController) checkCounted(action verify.Action, control verify.Control) {
	prev, next := c.pods[action.Pod.Name], action.Progress
	asked, failed := 0, false // how many verified Nodes gave a result that counts; one failed
	for _, pod := range control.Pods {
		const grace = 10 * time.Second
		ended := pod.Created.Add(action.Profile.StartTimeout + action.Profile.Timeout + grace)
		if len(pod.Containers) > 0 && pod.Containers[0].Ended && pod.Containers[0].Finished.Before(ended) {
			ended = pod.Containers[0].Finished
		}
		late := !c.now.Before(pod.Created.Add(action.Profile.StartTimeout)) // one that did not start by then gave no result
		if !pod.Ended() && !late || !c.now.Before(ended.Add(time.Minute)) {
			continue
		}
		asked++
		failed = failed || pod.Phase == corev1.PodFailed && pod.Containers[0].Message == refuses
	}
	deadline := prev.Created.Add(3 * (action.Profile.StartTimeout + action.Profile.Timeout + 10*time.Second))
	switch {
	case len(prev.Containers) == 0 || prev.Containers[0].Message != refuses:
	case next.Last.Result == verify.VerdictShared && !failed:
		c.fail("pod %s: the failure is taken for shared, and no control Pod failed", action.Pod.Name)
	case next.Last.Result == verify.VerdictShared && verify.AttemptOf(prev.NodeUID, next) == action.Attempt:
		c.fail("pod %s: it would be judged for ever", action.Pod.Name)
	case next.Last.Result != verify.VerdictShared && failed:
		c.fail("pod %s: an attempt was counted although a verified Node fails, too", action.Pod.Name)
	case next.Last.Result == verify.VerdictFailed && asked < min(2, control.Able) && c.now.Before(deadline):
		c.fail("pod %s: an attempt was counted after %d verified Nodes of %d were asked", action.Pod.Name, asked, control.Able)
	}
	if next.Last.Result == verify.VerdictShared {
		c.totals["Shared"]++
	}
}

// change is a PATCH of a Node that its uid and resourceVersion allow.
func (c *modelController) change(live *modelNode, action verify.Action, profiles verify.Profiles) {
	if action.Operation == verify.DoShow {
		live.Verified = action.Show
		c.wrote(live.Name)
		return
	}
	if action.Operation == verify.DoHold {
		c.checkHeld(live, profiles)
		live.Taints = append(slices.Clone(live.Taints), action.Hold)
		live.epoch++
		c.totals["Holds"]++
		c.wrote(live.Name)
		return
	}
	if action.Operation == verify.DoRecheck {
		c.checkRecheck(live, profiles)
	}
	live.Annotation = action.Progress.String()
	live.Labels = maps.Clone(live.Labels)
	if action.Operation == verify.DoOpen {
		live.Labels[verify.Label] = "true"
	} else if action.Operation != verify.DoUnhold {
		delete(live.Labels, verify.Label)
	}
	switch action.Operation {
	case verify.DoRecheck:
		live.Taints = append(slices.Clone(live.Taints), action.Hold)
		live.epoch++
		c.closing[live.UID] = true
		c.totals["Rechecks"]++
	case verify.DoNote:
		c.totals["Noted"]++
		c.observed(live.UID).Opened = false
	case verify.DoUnhold:
		c.totals["Unholds"]++
		c.checkUnheld(live, profiles)
		live.Taints = profiles.Opened(live.Taints)
	case verify.DoRecord:
		c.totals["Recorded"]++
		if action.Progress.Last.Result == verify.VerdictShared && action.Profile.Removes() {
			c.shared[action.Profile.Name] = c.now
		}
	case verify.DoOpen:
		c.totals["Opened"]++
		live.Taints = profiles.Opened(live.Taints)
		if slices.ContainsFunc(live.Taints, isGate) {
			c.fail("node %s was opened behind the gate", live.Name)
		}
		if profile, _ := profiles.Match(live.Labels); profile.OnlyWaits() {
			c.totals["Waited"]++
			c.checkWaited(live, action)
			break
		}
		c.checkOpened(live, action.Pod)
	case verify.DoFree:
		c.totals["Freed"]++
		_, selected := profiles.Match(live.Labels)
		if age := c.now.Sub(live.Created); selected && (action.Profile.OnTimeout != verify.Release || age < action.Profile.Deadline) {
			c.fail("node %s was released %s after its creation", live.Name, age)
		}
		live.Taints = profiles.Opened(live.Taints)
	}
	c.wrote(live.Name)
}

// room returns how many Nodes may be closed to check them again, as the process sees it.
func (c *modelController) room(item *verify.Node, profiles verify.Profiles) *verify.Room {
	takes := func(node *verify.Node) bool {
		return verify.TakesWorkloads(node.Ready, false, node.Taints) && (node.UID == item.UID || !c.closing[node.UID])
	}
	room := &verify.Room{Takes: takes(item)}
	for _, node := range c.nodes {
		if takes(&node.Node) {
			room.Takers++
		}
		if _, selected := profiles.Match(node.Labels); selected {
			room.Selected++
			if node.UID != item.UID && c.closing[node.UID] || profiles.Rechecked(node.Taints) {
				room.Closed++
			}
		}
	}
	return room
}

// checkRecheck: each process closes at most one Node at a time, since there are few, and not the last one that takes Pods.
func (c *modelController) checkRecheck(live *modelNode, profiles verify.Profiles) {
	closed, takers := 0, 0
	for _, node := range c.model.nodes {
		if _, selected := profiles.Match(node.Labels); selected && profiles.Rechecked(node.Taints) {
			closed++
		}
		if node != live && verify.TakesWorkloads(node.Ready, false, node.Taints) {
			takers++
		}
	}
	switch {
	case live.Request == "" && live.Labels[verify.Label] != "":
		c.fail("node %s was closed although it is verified, and nothing asks for a check", live.Name)
	case closed >= c.leaders && !c.lags:
		c.fail("node %s was closed while %d others were", live.Name, closed)
	case takers == 0 && !c.lags && verify.TakesWorkloads(live.Ready, false, live.Taints):
		c.fail("node %s was closed, the last one that takes Pods", live.Name)
	}
}

// checkHeld: the taint is added to a Node that may be rebooting, and not to many at once.
func (c *modelController) checkHeld(live *modelNode, profiles verify.Profiles) {
	profile, selected := profiles.Match(live.Labels)
	progress := verify.ParseProgress(live.Annotation)
	live.checked = live.BootID
	rebooted := progress.OnReboot && progress.BootID != live.BootID
	if rebooted {
		live.checked = progress.BootID
	}
	used := 0
	for _, node := range c.model.nodes {
		if node != live && slices.ContainsFunc(node.Taints, func(taint corev1.Taint) bool {
			return taint.Key == verify.Taint && node.wasOpen && strings.HasPrefix(taint.Value, "reboot-")
		}) {
			used++
		}
	}
	switch {
	case !selected || profile.Reverify != verify.OnReboot:
		c.fail("node %s was held against the profile", live.Name)
	case live.Ready && !rebooted:
		c.fail("node %s was held while it was Ready on the boot that was checked", live.Name)
	// After a change of the policy the count of Nodes that are away is right only once the watch has brought each of them again.
	case used > 0 && !c.lags && c.leaders == 1 && c.policy == 0:
		c.fail("node %s was held together with %d others of %d", live.Name, used, len(c.model.nodes))
	}
}

// checkUnheld: only a Node that was open, and does not run another boot, or is one of many, becomes open again without a check.
func (c *modelController) checkUnheld(live *modelNode, profiles verify.Profiles) {
	profile, _ := profiles.Match(live.Labels)
	held := profiles.ClosingTaints(live.Taints)
	switch outage := c.outage.End(c.now).After(c.now); {
	case len(held) > 0 && !live.wasOpen:
		c.fail("node %s was never verified, and was opened: taint %v", live.Name, held)
	case len(held) > 0 && slices.ContainsFunc(held, func(taint corev1.Taint) bool { return taint.Value == "" }):
		c.fail("node %s was opened although an operator had added the taint", live.Name)
	case live.checked != live.BootID && len(held) > 0 && !outage && profile.Reverify == verify.OnReboot:
		c.fail("node %s was opened on boot %q after a check of boot %q", live.Name, live.BootID, live.checked)
	}
}

// checkWaited: a profile without checks opens a Node only while what it waits for holds, and by no Pod.
func (c *modelController) checkWaited(live *modelNode, action verify.Action) {
	if action.Pod.UID != "" || !live.Ready || live.Conditions["Warm"] != corev1.ConditionTrue {
		c.fail("node %s was opened by Pod %q while it was Ready: %t, Warm: %q", live.Name, action.Pod.UID, live.Ready, live.Conditions["Warm"])
	}
}

// checkOpened is the promise: a Node is opened only after a worker Pod passed that ran on this Node object, since the taint was last added.
func (c *modelController) checkOpened(live *modelNode, by verify.Pod) {
	report := by.Containers[0].Message
	switch {
	case by.NodeUID != live.UID:
		c.fail("node %s was opened by a Pod of another Node object", live.Name)
	case by.Phase != corev1.PodSucceeded || report != passes:
		c.fail("node %s was opened by a Pod that did not pass: %s %s", live.Name, by.Phase, report)
	}
	for _, event := range c.log {
		if event.pod != nil && event.pod.UID == by.UID {
			if event.pod.forged {
				c.fail("node %s was opened by a Pod that another client created", live.Name)
			}
			if event.pod.epoch != live.epoch && !live.faked {
				c.fail("node %s was opened in round %d by a Pod of round %d", live.Name, live.epoch, event.pod.epoch)
			}
			return
		}
	}
	c.fail("node %s was opened by a Pod that never existed", live.Name)
}

// turns has a kubelet say whether its Node is Ready, and since when.
func (n *modelNode) turns(ready bool, now time.Time) {
	if n.Ready != ready {
		n.Ready, n.ReadySince = ready, now
	}
}

// settle ends what disturbs, and lets time pass until every Node is decided. A Node that stays broken must stay tainted, and show why.
func (m *model) settle() {
	m.fault = false
	for _, name := range m.nodesByName() {
		node := m.nodes[name]
		node.hostile = false
		node.turns(true, m.now)
		node.Conditions = map[string]corev1.ConditionStatus{"Warm": corev1.ConditionTrue}
		node.Taints = slices.DeleteFunc(node.Taints, isGate)
		if node.broken = m.chance(4); node.broken && len(m.profiles[0].ClosingTaints(node.Taints)) > 0 {
			node.faked = true
		}
		m.wrote(name)
	}
	for _, c := range m.controllers {
		c.policy = 0
	}
	for range 400 {
		done := true
		if m.chance(20) {
			for _, node := range m.nodes {
				node.occupied = false
			}
		}
		for _, c := range m.controllers[:1] { // the Lease has one lead
			c.observe(true)
			for _, name := range m.nodesByName() {
				for range 4 {
					action := c.work(name)
					c.observe(true)
					if action.Operation == verify.DoNothing || action.Operation == verify.DoWait || action.Operation == verify.DoStart {
						break
					}
				}
				done = done && (m.nodes[name] == nil || m.decided(m.nodes[name]))
			}
			c.grant()
			c.observe(true)
		}
		for _, pod := range m.podNames() {
			if _, ok := m.pods[pod]; ok {
				m.goOn(pod)
			}
		}
		if workers, _ := m.count(); done && len(m.wrong) == 0 && workers == 0 {
			return
		}
		if len(m.wrong) > 0 {
			return
		}
		m.now = m.now.Add(2 * time.Second)
	}
	for _, name := range m.nodesByName() {
		if node := m.nodes[name]; !m.decided(node) {
			m.fail("node %s is not decided: taints %v, annotation %s, pods %v", name, node.Taints, node.Annotation, m.podNames())
			return
		}
	}
}

// decided reports whether a Node is open, or tainted with a failed check that is shown.
func (m *model) decided(node *modelNode) bool {
	progress := verify.ParseProgress(node.Annotation)
	profile, selected := m.profiles[0].Match(node.Labels)
	if len(m.profiles[0].ClosingTaints(node.Taints)) == 0 {
		return node.faked || !selected || profile.Reverify != verify.OnReboot || !progress.OnReboot || progress.BootID == node.BootID
	}
	return node.broken && progress.Attempts+progress.Shared > 0 && node.Verified.Status == corev1.ConditionFalse
}

func TestAThousandNodesAtOnceTakeLittleMoreThanTheirPacedMinimum(t *testing.T) {
	profiles, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{{
		Name: "all", Checks: []verify.Check{{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}},
	}}}, nil)
	require.Empty(t, errs)
	m := emptyModel(rand.New(rand.NewPCG(1, 1)))
	m.leaders, m.profiles, m.inFlight = 1, [2]verify.Profiles{profiles, profiles}, profiles.Start.InFlight
	c := &modelController{model: m}
	m.controllers = []*modelController{c}
	for i := range 1000 {
		m.register(fmt.Sprint("n", i))
		node := m.nodes[fmt.Sprint("n", i)]
		node.Taints, node.Ready, node.hostile = node.Taints[:1], true, false
		node.broken = i%10 == 0 // these fail, and their retries must not keep the others waiting
	}
	c.restart()
	began := m.now
	open := func() (opened int) {
		for _, node := range m.nodes {
			if len(node.Taints) == 0 {
				opened++
			}
		}
		return opened
	}
	const step, runs = 100 * time.Millisecond, 4 * time.Second
	due := map[string]time.Time{}
	for _, name := range m.nodesByName() {
		due[name] = m.now
	}
	for open() < 900 {
		require.Less(t, m.now.Sub(began), 10*time.Minute)
		for read := c.read; read < len(m.log); read++ {
			due[m.log[read].nodeName] = m.now
		}
		c.observe(true)
		for _, name := range slices.Sorted(maps.Keys(due)) {
			if due[name].After(m.now) {
				continue
			}
			if due[name] = c.work(name).Requeue; due[name].IsZero() {
				delete(due, name)
			}
		}
		c.grant()
		for _, name := range m.podNames() {
			if pod := m.pods[name]; m.now.Sub(pod.Created) >= runs*time.Duration(pod.age+1)/2 {
				m.goOn(name)
			}
		}
		m.now = m.now.Add(step)
	}
	require.Empty(t, m.wrong)
	minimum := time.Duration(1000/profiles.Start.PerSecond) * time.Second
	t.Logf("opened 900 of 1,000 Nodes in %s; the pace allows %s for 1,000 first attempts", m.now.Sub(began), minimum)
	assert.LessOrEqual(t, m.now.Sub(began), minimum*13/10)
}
