package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// renaming is a random life of machines that change their names, next to a model of what each name must keep. Kubelets claim
// any machine's identity, so that several Nodes have one; the webhook is down or knows old records.
type renaming struct {
	*cluster
	random *rand.Rand
	seed   uint64
	log    []string
	leader *replica
	stale  map[string]store.Entry // what a webhook that is behind knows

	names map[string]*nameModel
	heirs map[string]string // which name follows an object's record, by the name and UID of that object
}

// nameModel is what must be true of a name.
type nameModel struct {
	wants    labels // what it must remember
	waits    labels // what waits for an operator
	free     bool   // the gate was lifted before anything waited: the Node followed later
	earned   labels // protected labels that an operator set on a Node of that name, or accepted
	given    labels // what the webhook gave the object that registered last
	touched  labels // keys that were set or removed on the Node since it has no record
	recorded bool
	deleted  bool // once at least
	born     int  // the version at which it registered last
	died     int  // the version at which it was deleted last
	followed bool // another name follows it
	reused   bool // it was used again after that
	machine  string
	accepts  store.Side
}

const simulatedSeeds = 60

func TestMachinesThatChangeTheirNamesLoseNothingAndGetNothingTwiceInRandomScenarios(t *testing.T) {
	if text := os.Getenv("NODEKEEP_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		simulateRenaming(t, seed)
		return
	}
	first := rand.Uint64() >> 16
	t.Logf("seeds %d to %d; one of them: NODEKEEP_SEED=n", first, first+simulatedSeeds-1)
	follows := simulateRenaming(t, 257535022323470) // a webhook that is behind follows a newer record of another name
	follows += simulateRenaming(t, 115680831239816) // an operator sets a label on the second of three names, where the first one's value waits
	follows += simulateRenaming(t, 231339449351843) // the name that the webhook restored from is another machine's before capture looks
	for seed := first; seed < first+simulatedSeeds && !t.Failed(); seed++ {
		follows += simulateRenaming(t, seed)
	}
	if !t.Failed() {
		require.Greater(t, follows, 3, "a simulation in which few Nodes follow shows little")
	}
}

func simulateRenaming(t *testing.T, seed uint64) (follows int) {
	t.Helper()
	w := &renaming{cluster: newCluster(t, "machine: {follow: true}"), random: rand.New(rand.NewPCG(seed, 0)), seed: seed, names: map[string]*nameModel{}, heirs: map[string]string{}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.names[name] = &nameModel{wants: labels{}, waits: labels{}, earned: labels{}, touched: labels{}}
	}
	w.restart()
	for range 60 {
		w.step()
		w.check(false)
	}
	for range 6 {
		w.passes(time.Hour)
		w.leader.enqueueAll()
		w.works()
	}
	w.check(true)
	return len(w.heirs)
}

func (w *renaming) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *renaming) fail(format string, args ...any) {
	w.t.Helper()
	require.FailNow(w.t, fmt.Sprintf(format, args...), "seed %d\n%s", w.seed, strings.Join(w.log, "\n"))
}

func pick[T any](r *rand.Rand, item []T) T { return item[r.IntN(len(item))] }

func (w *renaming) step() {
	name := pick(w.random, slices.Sorted(maps.Keys(w.names)))
	lives := w.lives(name)
	switch dice := w.random.IntN(20); {
	case dice < 6 && !lives:
		w.registers(name)
	case dice < 5 && lives:
		w.deletes(name)
	case dice < 10 && lives:
		w.edits(name)
	case dice < 14:
		w.leader.Enqueue(name)
		w.work(name)
	case dice < 16:
		w.leader.enqueueAll()
		w.works()
	case dice < 17:
		w.works()
		w.say("capture restarts")
		w.restart()
	case dice < 18:
		w.stale = w.known()
	default:
		w.decides(name)
	}
}

func (w *renaming) restart() {
	if w.leader != nil {
		w.leader.deaf = true
	}
	w.leader = w.cluster.leader()
	w.leader.sees = func(name string, _ bool, entry *store.Entry, err error) error {
		if entry.Record.Quarantined != nil {
			entry.AcceptedSide = w.names[name].accepts
		}
		return err
	}
}

// works has capture do all that is due, one Node after the other in any order.
func (w *renaming) works() {
	for range 20 {
		due := map[string]bool{}
		for w.leader.queue.Len() > 0 {
			name, _ := w.leader.queue.Get()
			w.leader.queue.Done(name)
			due[name] = true
		}
		if len(due) == 0 {
			return
		}
		names := slices.Sorted(maps.Keys(due))
		w.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			w.work(name)
		}
	}
}

func (w *renaming) work(name string) {
	w.say("capture works on %s", name)
	if err := w.leader.reconcileOne(w.t.Context(), name); err != nil {
		w.fail("capture: %v", err)
	}
	w.notes(name)
}

// notes takes in that a name has its first record: what it follows is in the model from now on.
func (w *renaming) notes(name string) {
	m := w.names[name]
	entry, err := w.Get(name)
	if err != nil {
		return
	}
	if m.accepts != "" && entry.Record.Quarantined == nil {
		m.accepts = ""
	}
	if m.recorded {
		return
	}
	m.recorded = true
	old := entry.Record.Followed
	if old == "" {
		if heir := w.heritable(name); heir != "" && !m.deleted { // the record of a Node that is deleted before it could follow is one of its own
			w.fail("%s has its first record, which must follow %s", name, heir)
		}
		if !m.deleted && !w.agrees(name) { // what it is from was used again on another machine: that proves nothing against this one
			for key, value := range m.given {
				if _, touched := m.touched[key]; !touched {
					m.wants[key] = value
				}
			}
		}
		m.touched = labels{}
		return
	}
	w.say("%s follows %s", name, old)
	if n, err := w.get(name); err == nil {
		m.free = !gate.Present(n.Spec.Taints)
	}
	o := w.names[old]
	last, err := w.Get(old)
	switch {
	case w.lives(old):
		w.fail("%s follows %s, which lives", name, old)
	case err != nil || o.machine != m.machine:
		w.fail("%s follows %s, which is not its machine's", name, old)
	}
	for second, item := range w.names {
		if second != name && w.lives(second) && item.recorded && item.machine == m.machine {
			w.fail("%s follows %s while %s of the same identity lives", name, old, second)
		}
		if entry, err := w.Get(second); err == nil && second != name && second != old && !item.followed && entry.Record.Machine.SystemUUID == m.machine {
			w.fail("%s follows %s, and the record of %s is of the same identity", name, old, second)
		}
	}
	object := old + " " + string(last.Record.Newest().UID)
	if heir := w.heirs[object]; heir != "" {
		w.fail("%s and %s follow one record, that of %s", heir, name, object)
	}
	w.heirs[object] = name
	o.followed, o.reused = true, false
	// A key may wait on that Node though an operator has set it there. Then the operator's value is the one that waits here, so wants comes
	// last. The model had this the other way round: it expected the older value, which accepting would not have brought back on that Node.
	for _, items := range []labels{o.waits, o.wants} {
		for key, value := range items {
			if _, touched := m.touched[key]; touched && key != worker {
				continue
			}
			if key == worker {
				m.waits[key] = value
			} else {
				m.wants[key] = value
			}
		}
	}
	m.touched = labels{}
}

// agrees reports whether the record of another name is of the machine of this one. One that a third name has followed is not, unless it has
// been written for a Node since. The model once counted it, and expected that this name loses what the webhook gave it for a good reason.
func (w *renaming) agrees(name string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.names)), func(second string) bool {
		entry, err := w.Get(second)
		o := w.names[second]
		counts := !o.followed || o.reused && int(entry.Record.Newest().Version) >= o.born
		return second != name && err == nil && entry.Record.Machine.SystemUUID == w.names[name].machine && counts
	})
}

func (w *renaming) lives(name string) bool {
	_, err := w.get(name)
	return err == nil
}

// heritable returns the name that a machine under a new name must follow; empty where that may be none.
func (w *renaming) heritable(name string) (heir string) {
	for second, m := range w.names {
		if entry, err := w.Get(second); second != name && err == nil && entry.Record.Machine.SystemUUID != m.machine {
			return "" // capture has not seen its last state yet
		}
		if second == name || !m.recorded || m.machine != w.names[name].machine || m.followed && !m.reused {
			continue
		}
		if w.lives(second) || heir != "" || m.reused || w.names[name].born < m.died {
			return ""
		}
		heir = second
	}
	return heir
}

func (w *renaming) registers(name string) {
	m := w.names[name]
	uid := types.UID(fmt.Sprintf("%s-%d", name, w.version))
	machineOf := pick(w.random, []string{machineA, machineB, "c" + machineA[1:], "d" + machineB[1:]})
	if second := pick(w.random, slices.Sorted(maps.Keys(w.names))); w.names[second].recorded && !w.lives(second) {
		machineOf = w.names[second].machine // a host that was renamed
	}
	current := labels{}
	if w.random.IntN(4) == 0 {
		current["disk"] = "own"
	}
	n := node(uid, "", current, called(name), machine(machineOf), gated)
	n.UID, n.ResourceVersion = "", ""
	way := pick(w.random, []string{"fresh", "fresh", "stale", "down"})
	switch way {
	case "fresh":
		n = ReviewCreation(snapshot{w.known(), time.Now()}, func() policy.Policy { return w.policy }, true, n)
	case "stale": // it knows that it is behind
		n = ReviewCreation(snapshot{entries: w.stale}, func() policy.Policy { return w.policy }, true, n)
	}
	w.say("%s registers on %s with %v, webhook %s: %v", name, machineOf[:4], current, way, n.Labels)
	n.UID = uid
	w.commit(n)
	m.born, m.free = w.version, false
	m.machine, m.reused, m.given = machineOf, m.followed, maps.Clone(n.Labels)
	for key, value := range current {
		m.wants[key], m.touched[key] = value, value
	}
}

// ReviewCreation returns what the API server makes of a Node after the webhook's answer.
func ReviewCreation(records webhook.Records, current func() policy.Policy, byKubelet bool, node *corev1.Node) *corev1.Node {
	object, err := json.Marshal(node)
	if err != nil {
		panic(err)
	}
	user := authenticationv1.UserInfo{Username: "administrator", Groups: []string{"system:masters"}}
	if byKubelet {
		user = authenticationv1.UserInfo{Username: "system:node:" + node.Name, Groups: []string{"system:nodes", "system:authenticated"}}
	}
	handler := webhook.NewHandler(records, current, webhookMetrics, slog.New(slog.DiscardHandler))
	response := handler.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "review", Operation: admissionv1.Create, Name: node.Name, UserInfo: user,
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Object: runtime.RawExtension{Raw: object},
	}})
	if !response.Allowed {
		panic("the webhook denies a Node")
	}
	if len(response.Patches) == 0 {
		return node
	}
	operations, err := json.Marshal(response.Patches)
	if err != nil {
		panic(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err == nil {
		object, err = patch.Apply(object)
	}
	if err != nil {
		panic(fmt.Sprintf("the API server cannot apply %s: %v", operations, err))
	}
	patched := &corev1.Node{}
	if err := json.Unmarshal(object, patched); err != nil {
		panic(err)
	}
	return patched
}

// webhookMetrics are shared: nothing reads them.
var webhookMetrics = webhook.NewMetrics(prometheus.NewRegistry())

// snapshot is records as they were.
type snapshot struct {
	entries map[string]store.Entry
	current time.Time
}

func (s snapshot) Get(name string) (store.Entry, error) {
	if entry, ok := s.entries[name]; ok {
		return entry, nil
	}
	return store.Entry{}, store.ErrNotFound
}

func (s snapshot) ListByMachine(record.Machine) (records []record.Record, err error) {
	for _, entry := range s.entries {
		records = append(records, entry.Record)
	}
	return records, nil
}

func (s snapshot) Progress() time.Time { return s.current }

func (w *renaming) known() map[string]store.Entry {
	all := map[string]store.Entry{}
	for _, name := range w.NodeNames() {
		if entry, err := w.Get(name); err == nil {
			all[name] = entry
		}
	}
	return all
}

func (w *renaming) deletes(name string) {
	w.say("%s is deleted", name)
	w.deleteNode(name)
	w.names[name].deleted, w.names[name].died = true, w.version
}

// edits is an operator who sets or removes a label.
func (w *renaming) edits(name string) {
	n, err := w.get(name)
	require.NoError(w.t, err)
	m, key, value := w.names[name], pick(w.random, []string{"disk", "rack", worker}), fmt.Sprintf("v%d", w.version)
	if n.Labels == nil {
		n.Labels = labels{}
	}
	_, shown := n.Labels[key]
	if w.random.IntN(3) == 0 {
		entry, err := w.Get(name)
		if last := entry.Record; !shown || err != nil || last.Newest().UID != n.UID || last.Items()[key] != n.Labels[key] {
			return // a removal of what no process ever saw on the object cannot be known
		}
		delete(n.Labels, key)
		delete(m.wants, key)
		value = ""
	} else {
		n.Labels[key], m.wants[key] = value, value
		owned("kubectl-label", key)(n)
		if key == worker {
			m.earned[key] = value
		}
	}
	m.touched[key] = value
	if m.recorded {
		delete(m.waits, key) // what is known since comes first
	}
	w.say("an operator sets %s of %s to %q", key, name, value)
	w.commit(n)
}

// decides is an operator who accepts what waits, or not.
func (w *renaming) decides(name string) {
	m := w.names[name]
	entry, err := w.Get(name)
	if err != nil || entry.Record.Quarantined == nil || m.accepts != "" || w.random.IntN(2) == 0 {
		return
	}
	m.accepts = pick(w.random, []store.Side{store.OldMachine, store.NewMachine})
	w.say("an operator accepts machine %s for %s", m.accepts, name)
	if m.accepts == store.OldMachine {
		for key, value := range m.waits {
			if _, known := m.wants[key]; !known {
				m.wants[key], m.earned[key] = value, value
			}
		}
	}
	m.waits = labels{}
	w.leader.Enqueue(name)
	w.work(name)
}

// check is what must be true: always and, once all is done, of each Node that lives and of each record.
func (w *renaming) check(settled bool) {
	for name, m := range w.names {
		entry, missing := w.Get(name)
		n, gone := w.get(name)
		if gone == nil {
			if _, shown := n.Labels[worker]; shown && m.earned[worker] == "" {
				w.fail("%s has the protected label, which nobody accepted", name)
			}
			if settled && !maps.Equal(orNoLabels(n.Labels), m.wants) {
				w.fail("%s shows %v and must show %v", name, n.Labels, m.wants)
			}
			if settled && len(m.waits) > 0 && !m.free && !gate.Present(n.Spec.Taints) {
				w.fail("%s waits for an operator without the gate", name)
			}
		}
		if settled && missing == nil {
			var waits labels
			if entry.Record.Quarantined != nil {
				waits = entry.Record.Quarantined.Items()
			}
			if !maps.Equal(entry.Record.Items(), m.wants) || len(m.waits) > 0 && !maps.Equal(waits, m.waits) {
				w.fail("the record of %s has %v and %v, and must have %v and %v", name, entry.Record.Items(), waits, m.wants, m.waits)
			}
		}
		if settled && missing != nil && len(m.wants) > 0 {
			w.fail("%s has no record and must remember %v", name, m.wants)
		}
	}
}
