package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/random"
)

const (
	settles = harness.Settles
	soonest = 30 * time.Second // a step writes all that it writes in less, also on a busy machine
	gpuName = "nvidia.com/gpu"
)

// world is the Nodes, what the policy is, and what anybody could see.
type world struct {
	t        *testing.T
	writer   writer
	machines []*machine
	clients  map[string]*kubernetes.Clientset
	watcher  *harness.Watcher
	rules    rules
	figures  map[string]int

	mu      sync.Mutex
	written map[string]bool   // resourceVersions that the script wrote
	extra   map[string]int    // how often more a label may change in this step, by Node, and by Node/label
	seen    map[string]int    // how many states of a Node were looked at
	version map[string]string // the version of the last one
	last    map[string]map[string]string
}

func newWorld(t *testing.T, seed uint64, count int) *world {
	w := &world{
		t: t, writer: writer{rand.New(rand.NewPCG(seed, 0)), shortHold(count)}, machines: machines(count), clients: map[string]*kubernetes.Clientset{}, figures: map[string]int{},
		written: map[string]bool{}, extra: map[string]int{}, seen: map[string]int{}, version: map[string]string{}, last: map[string]map[string]string{},
	}
	for _, m := range w.machines {
		w.clients[m.name] = nodekeep.Kubelet(t, m.name)
	}
	mayReadSlices(t)
	w.watcher = nodekeep.WatchNodes(t)
	w.version[witness] = nodekeep.Node(t, witness).ResourceVersion
	w.machines = append(w.machines, &machine{name: witness, exists: true, cpu: 8, gib: 32, room: 8, operators: map[string]string{}, ruled: map[string]setting{}})
	return w
}

// forEach does something to some of the Nodes, many at once. The witness is left alone.
func (w *world) forEach(machines []*machine, fn func(m *machine) error) {
	w.t.Helper()
	machines = slices.DeleteFunc(slices.Clone(machines), func(m *machine) bool { return m.name == witness })
	require.NoError(w.t, random.ForEach(machines, func(m *machine) error {
		if err := fn(m); err != nil {
			return fmt.Errorf("node %s: %w", m.name, err)
		}
		return nil
	}))
}

// sample returns a part of the Nodes.
func (w *world) sample(part float64) (list []*machine) {
	for _, m := range w.machines {
		if w.writer.chance(part) && m.name != witness {
			list = append(list, m)
		}
	}
	return list
}

// resources returns what the kubelet reports of itself.
func (m *machine) resources() (capacity, allocatable corev1.ResourceList) {
	list := func(cpu, gib int) corev1.ResourceList {
		if m.blind {
			cpu, gib = 0, 0
		}
		return corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dGi", gib)), corev1.ResourcePods: resource.MustParse("110"),
		}
	}
	return list(m.room, m.gib), list(m.room/2, m.gib/2)
}

// identity names the machine. In a cloud, machines of one image differ by the first identifier. Machines that report nothing of the hardware
// differ by the last. A system that is installed again changes only the others.
func (m *machine) identity() (providerID, systemUUID, machineID string) {
	machine, system := fmt.Sprintf("%s-%d", m.name, m.replaced), fmt.Sprintf("%s-%d-%d", m.name, m.replaced, m.installed)
	switch kindOf(m) {
	case "gpub", "big":
		return "cloud://" + machine, "image", "image"
	case "small":
		return "", "", machine
	default:
		return "", machine, system
	}
}

// register sends the CREATE of a kubelet, which knows of no extended resource, and looks at the answer.
func (w *world) register(m *machine) error {
	node := harness.Registration(m.name)
	node.Status.Capacity, node.Status.Allocatable = m.resources()
	node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = m.identity()
	node.Labels[leftOver] = "1"
	m.exists, m.gpus, m.waited, m.left = true, 0, false, true
	prev, late := m.created(w.rules)
	stored, err := w.clients[m.name].CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("a kubelet was refused: %w", err)
	}
	next, _ := m.created(w.rules) // a label that was held may have ended
	if got := shown(stored); !maps.Equal(got, prev) && !maps.Equal(got, next) {
		return fmt.Errorf("the CREATE has %v, and not %v", got, next)
	}
	if m.replaced > 0 && len(m.ruled) == 0 { // another machine: what its CREATE lacks, it lacks for that
		w.mu.Lock()
		w.written[stored.ResourceVersion] = true
		w.mu.Unlock()
	}
	if late && !random.Gated(stored) {
		return fmt.Errorf("it still lacks %s, and is not gated", gpuWorker)
	}
	return w.visible(stored)
}

// created returns the labels of the CREATE, and whether one is missing that no kubelet may set. The webhook reads no ResourceSlices.
func (m *machine) created(by rules) (labels map[string]string, late bool) {
	unread := *m
	unread.cards, unread.partly = nil, true
	labels = m.labels(by.apply(&unread, time.Now()).set)
	_, late = labels[gpuWorker]
	delete(labels, gpuWorker)
	return labels, late
}

// restart deletes a Node, and its kubelet registers it again. What rules set on another machine of the name counts no more.
func (w *world) restart(m *machine, replaced bool) error {
	if err := nodekeep.Admin.CoreV1().Nodes().Delete(w.t.Context(), m.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if replaced {
		m.replaced++
		m.ruled = map[string]setting{}
	}
	return w.register(m)
}

// report has the kubelet say how many GPUs there are, and whether device plugins had time to register. It leaves extended resources out,
// or says 0, as kubelets do.
//
// The time since which a Node is ready is moved by way of not being ready, as on any Node.
func (w *world) report(m *machine, gpus int, ok, says bool) error {
	if ok && !m.waited {
		unready := map[string]any{"status": map[string]any{"conditions": []map[string]any{{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}}}}
		if err := w.patch(m, "status", unready); err != nil {
			return err
		}
	}
	m.gpus, m.waited = gpus, ok
	ready := time.Now()
	if ok {
		ready = ready.Add(-time.Hour)
	}
	resources := func(list corev1.ResourceList, gpus int) map[string]any {
		all := map[string]any{gpuName: nil}
		for name, amount := range list {
			all[string(name)] = amount
		}
		if m.gpus > 0 || says {
			all[gpuName] = fmt.Sprint(gpus)
		}
		return all
	}
	capacity, allocatable := m.resources()
	return w.patch(m, "status", map[string]any{"status": map[string]any{
		"capacity": resources(capacity, m.gpus), "allocatable": resources(allocatable, m.healthy()),
		"conditions": []map[string]any{{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": ready.UTC().Format(time.RFC3339)}},
	}})
}

func (w *world) patch(m *machine, subresource string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = w.clients[m.name].CoreV1().Nodes().Patch(w.t.Context(), m.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, subresource)
	return err
}

// relabel does what an operator does; nil removes a label.
func (w *world) relabel(m *machine, key string, value any) error {
	node, err := random.Relabel(w.t.Context(), nodekeep.Admin, m.name, map[string]any{key: value}, "")
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[node.ResourceVersion] = true
	return nil
}

// insist does what a client does that wants another value than a rule with precedence: rule. After some corrections, nodekeep waits longer
// before each.
func (w *world) insist(m *machine) error {
	const value, times = "mine", 6
	m.operators[owner] = value
	corrected := make([]time.Time, times)
	for n := range times {
		if err := w.relabel(m, owner, value); err != nil {
			return err
		}
		deadline := time.Now().Add(settles)
		for got := value; got == value; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s=%s is not corrected the %d. time", owner, value, n+1)
			}
			node, err := nodekeep.Admin.CoreV1().Nodes().Get(w.t.Context(), m.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			got = node.Labels[owner]
		}
		corrected[n] = time.Now()
	}
	if last, prev := corrected[times-1].Sub(corrected[times-2]), corrected[times-2].Sub(corrected[times-3]); prev < time.Second/2 || last < time.Second*3/2 {
		return fmt.Errorf("a client that sets %s again and again is corrected after %s, then after %s: that is no growing pause", owner, prev, last)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.extra[m.name+"/"+owner] = times
	w.figures["labels fought over"]++
	return nil
}

// shown returns the labels of a Node that the model is about.
func shown(node *corev1.Node) map[string]string { return random.Labels(node, allKeys()) }

// visible says what is wrong with a state that anybody could see: without the gate it needs these taints, and those of its labels.
func (w *world) visible(node *corev1.Node, needs ...string) error {
	if random.Gated(node) {
		return nil
	}
	for _, taint := range slices.Concat(needs, taints(shown(node))) {
		if !harness.Carries(node, taint) {
			return fmt.Errorf("version %s is without the gate, and without taint %s", node.ResourceVersion, taint)
		}
	}
	return nil
}

// listed returns what the annotation lists of a Node.
func listed(node *corev1.Node) (all map[string]struct {
	Value, Rule string
	End         time.Time `json:"until"`
	Absent      bool
}) {
	_ = json.Unmarshal([]byte(node.Annotations["nodekeep.dev/labels"]), &all)
	return all
}

// complaint says what of a Node is not as the model has it.
func complaint(m *machine, node *corev1.Node, want map[string]setting) string {
	labels := m.labels(want)
	switch {
	case node == nil:
		return "there is no such Node"
	case random.Gated(node):
		return "the gate is on"
	case !maps.Equal(shown(node), labels):
		return fmt.Sprintf("it has %v, and not %v", shown(node), labels)
	case !slices.Equal(harness.TaintsOf(node), taints(labels)):
		return fmt.Sprintf("its taints are %v, and not %v", harness.TaintsOf(node), taints(labels))
	}
	got := listed(node)
	for key, set := range want {
		if got[key].Value != set.value || got[key].Rule != set.rule || !got[key].End.Equal(set.end) || got[key].Absent != set.absent {
			return fmt.Sprintf("the annotation says of %s %+v, and not %+v", key, got[key], set)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("the annotation lists %v, and not %v", got, want)
	}
	return ""
}

// settle waits until all is at rest and every Node as the model says. then is what that is of one Node.
func (w *world) settle(title string, began time.Time, planned func(m *machine, now time.Time) map[string]setting) {
	w.t.Helper()
	var nodes map[string]*corev1.Node
	var now time.Time
	wrong, err := random.Settle(settles+time.Duration(len(w.machines))*200*time.Millisecond, func() (wrong, versions map[string]string, err error) {
		nodes, versions, err = random.Nodes(w.t.Context(), nodekeep.Admin)
		now, wrong = time.Now(), map[string]string{}
		for _, m := range w.machines {
			if !m.exists {
				continue
			}
			w.begin(m, planned(m, now), began, now)
			if complaint := complaint(m, nodes[m.name], planned(m, now)); complaint != "" {
				wrong[m.name] = fmt.Sprintf("%s; operators: %v, rules set before: %v", complaint, m.operators, m.ruled)
			}
		}
		return wrong, versions, err
	})
	require.NoError(w.t, err)
	if len(wrong) > 0 {
		names := slices.Sorted(maps.Keys(wrong))[:min(5, len(wrong))]
		for _, name := range names {
			w.t.Errorf("%s: %s", name, wrong[name])
		}
		w.t.Fatalf("%s: %d Nodes are not as the model says", title, len(wrong))
	}
	w.accept(now, planned)
	w.looks(title, nodes)
}

// begin notes until when labels are held that are held from this step on, or shorter than before: as the first state of the Node says that has it.
// A hold that ended before capture had listed it is in no state. It is over where the Node is without the label, and has been since the hold ended.
func (w *world) begin(m *machine, want map[string]setting, began, now time.Time) {
	w.t.Helper()
	for key, set := range want {
		prev := m.ruled[key]
		if set.end.IsZero() || set.end.Equal(prev.end) {
			continue
		}
		hold := w.rules.named(set.rule).holds()
		early, late := began.Add(hold-time.Second), now.Add(hold) // whole seconds are stored
		states := w.watcher.States(m.name)[w.seen[m.name]:]
		i := slices.IndexFunc(states, func(state harness.State) bool {
			current := listed(state.Node)[key]
			return current.Rule == set.rule && current.Value == set.value && current.Absent == set.absent && !current.End.IsZero() && !current.End.Equal(prev.end)
		})
		switch start := lacks(states, key, set); {
		case i >= 0:
			set.end = listed(states[i].Node)[key].End
			require.False(w.t, set.end.Before(early) || set.end.After(late), "node %s: %s is held until %s, which is not from %s to %s", m.name, key, set.end, early, late)
			w.figures["labels held"]++
			if set.absent {
				w.figures["labels held absent"]++
			}
		case now.After(early) && !start.IsZero():
			require.False(w.t, start.Before(early), "node %s: %s is held until %s at least, and goes at %s", m.name, key, early, start)
			set.end = start
			w.figures["holds that were never listed"]++
		default:
			continue
		}
		m.ruled[key] = set
	}
}

// lacks is since when a Node that has no gate does not have a setting of a rule, up to the newest state; zero: it has it.
func lacks(states []harness.State, key string, set setting) (start time.Time) {
	for _, state := range slices.Backward(states) {
		current, present := listed(state.Node)[key]
		if present && current.Value == set.value && current.Absent == set.absent || random.Gated(state.Node) {
			break
		}
		start = state.Time
	}
	return start
}

// accept takes over what is there.
func (w *world) accept(now time.Time, planned func(m *machine, now time.Time) map[string]setting) {
	for _, m := range w.machines {
		if !m.exists {
			continue
		}
		want := planned(m, now)
		for key, prev := range m.ruled {
			if !prev.end.IsZero() && now.After(prev.end) && want[key] != prev {
				w.extra[m.name] = max(w.extra[m.name], 1)
				w.figures["holds that ended"]++
			}
		}
		m.ruled, m.left = want, m.left && !want[leftOver].absent
	}
}

// looks goes through every state from the last step to these Nodes: a label of a rule changes once for each cause, and a taint that a
// Node has before and after the step is there all the time in which the gate is not.
func (w *world) looks(title string, nodes map[string]*corev1.Node) {
	w.t.Helper()
	for _, m := range w.machines {
		if !m.exists {
			continue
		}
		changes, stay := map[string][]string{}, taints(w.last[m.name])
		if w.extra[m.name] > 0 {
			stay = nil
		}
		stay = slices.DeleteFunc(stay, func(taint string) bool { return !slices.Contains(taints(shown(nodes[m.name])), taint) })
		for _, state := range w.statesUntil(nodes[m.name]) {
			require.NoError(w.t, w.visible(state.Node, stay...), "%s: node %s", title, m.name)
			w.figures["states looked at"]++
			now, prev := shown(state.Node), w.last[m.name]
			for _, key := range allKeys() {
				value, ok := now[key]
				head, found := prev[key]
				switch {
				case value == head && ok == found, w.written[state.ResourceVersion]:
				case key == gpuWorker && random.Gated(state.Node): // it is not in the CREATE, and comes before the gate goes
					if ok {
						w.figures["labels that waited for capture"]++
					} else {
						now[key] = head // as if it had stayed
					}
				default:
					changes[key] = append(changes[key], fmt.Sprintf("%s: %q, then %q", state.ResourceVersion, head, value))
					w.figures["labels changed"]++
				}
			}
			w.last[m.name] = now
		}
		for key, names := range changes {
			require.LessOrEqual(w.t, len(names), 1+w.extra[m.name]+w.extra[m.name+"/"+key], "%s: node %s: label %s flaps: %v", title, m.name, key, names)
		}
	}
	clear(w.extra)
}

// statesUntil returns the states of a Node that were not looked at yet, up to this one. What comes after it is of the next step.
func (w *world) statesUntil(node *corev1.Node) (states []harness.State) {
	w.t.Helper()
	i := -1
	require.Eventually(w.t, func() bool {
		states = w.watcher.States(node.Name)[w.seen[node.Name]:]
		i = slices.IndexFunc(states, func(state harness.State) bool { return state.ResourceVersion == node.ResourceVersion })
		return i >= 0 || node.ResourceVersion == w.version[node.Name]
	}, harness.Settles, 5*time.Millisecond, "the watch must arrive at version %s of node %s", node.ResourceVersion, node.Name)
	w.version[node.Name] = node.ResourceVersion
	w.seen[node.Name] += i + 1
	return states[:i+1]
}

// follow returns what the rules of now say.
func (w *world) follow(m *machine, now time.Time) map[string]setting {
	return w.rules.apply(m, now).set
}

// change writes another policy. Where it alters labels of rules on more than one Node in ten, capture holds it until it is accepted.
func (w *world) change(title string, to rules) {
	w.t.Helper()
	w.outlast(title)
	altered, reads, began := 0, 1, time.Now()
	for _, m := range w.machines {
		if m.alters(to.apply(m, began).set) {
			altered++
		}
	}
	w.rules = to
	require.NoError(w.t, nodekeep.WritePolicy(w.t.Context(), to.yaml()))
	if altered > max(1, len(w.machines)/10) {
		w.figures["policies held"]++
		held := map[string]map[string]setting{}
		for _, m := range w.machines {
			held[m.name] = m.added(to.apply(m, began).set)
		}
		w.settle(title+", held", began, func(m *machine, _ time.Time) map[string]setting { return held[m.name] })
		w.audited(title+", held", reads)
		nodekeep.AcceptRules(w.t)
		began = time.Now()
		nodekeep.RenewPolicy(w.t) // so that capture looks at once
		reads++
	}
	w.settle(title, began, w.follow)
	nodekeep.RulesInForce(w.t)
	w.audited(title, reads)
}

// outlast waits until no label is held whose time ends soon. A hold that ends while a step makes its rule undecided may end before or after.
func (w *world) outlast(title string) {
	w.t.Helper()
	last := time.Time{}
	for _, m := range w.machines {
		for _, set := range m.ruled {
			if ending := set.end.Before(time.Now().Add(w.writer.short + soonest)); ending && set.end.After(last) {
				last = set.end
			}
		}
	}
	if !last.IsZero() {
		w.step(title+": first, what is held for a short time ends", func() { time.Sleep(time.Until(last)) })
	}
}

// audited waits until capture has counted what the last rule, which is in audit, would set: once for each Node, each time that the policy was read.
func (w *world) audited(title string, reads int) {
	w.t.Helper()
	last, want := w.rules[len(w.rules)-1], 0.0
	for _, m := range w.machines {
		if m.exists && last.condition.ask(m, nil) == yes {
			want += float64(reads)
		}
	}
	series := fmt.Sprintf(`nodekeep_rule_labels_audited_total{rule=%q}`, last.name)
	counted := func() float64 { return harness.Series(w.t, nodekeep.MetricsURL("capture"), series) }
	for deadline := time.Now().Add(settles); counted() != want && time.Now().Before(deadline); {
		time.Sleep(250 * time.Millisecond)
	}
	require.InDelta(w.t, want, counted(), 0, "%s: on how many Nodes rule %s would set a label", title, last.name)
	w.figures["labels audited"] += int(want)
}
