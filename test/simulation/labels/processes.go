package labels

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/simulation/oracle"
	"nodekeep.dev/nodekeep/webhook"

	"nodekeep.dev/nodekeep/policy/policytest"
)

var now = time.Unix(1, 0)

// model is what all worlds of an exploration share.
type model struct {
	Bounds
	phases  [2]policy.Policy // the one that captures follow first, and the next one
	metrics *webhook.Metrics
	created map[sum]*corev1.Node // what the webhook makes of a Node, by record
}

func newModel(b Bounds) (*model, error) {
	m := &model{Bounds: b, metrics: webhook.NewMetrics(prometheus.NewRegistry()), created: map[sum]*corev1.Node{}}
	m.Captures = min(max(m.Captures, 1), maxCaptures)
	for i, sections := range b.policies() {
		p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
		if err != nil {
			return nil, err
		}
		m.phases[i] = p
	}
	return m, nil
}

// policies returns the policy that captures follow first, and the next one.
func (b Bounds) policies() [2]string {
	rule := func(effect string) [2]string {
		return [2]string{fmt.Sprintf("labels: {rules: [{name: r, %s}]}\n", effect), ""}
	}
	switch b.Rule {
	case oracle.OperatorWins:
		return rule(fmt.Sprintf("set: {%s: %s}", newKey, oracle.ByRule))
	case oracle.RuleWins:
		return rule(fmt.Sprintf("set: {%s: %s}, precedence: rule", newKey, oracle.ByRule))
	case oracle.KeptOff:
		return rule(fmt.Sprintf("ensureAbsent: [%s]", newKey))
	}
	migration := func(phase policy.MigrationPhase) string {
		return fmt.Sprintf("labels: {migrations: [{from: %s, to: %s, phase: %s}]}\n", oldKey, newKey, phase)
	}
	return [2]string{migration(policy.MigrateBoth), migration(policy.MigrateNew)}
}

// observe returns what capture reads of a state.
func (w *world) observe(i int) *observe.Node {
	s := w.log[i]
	if s.node == nil {
		n := s.object()
		n.UID, n.ResourceVersion = types.UID(fmt.Sprint("U", s.Object)), strconv.Itoa(i+1)
		s.node = observe.FromNode(n)
	}
	return s.node
}

func (s *state) object() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: s.annotations}}
	for key, value := range map[string]string{oldKey: s.Old, newKey: s.New} {
		if value != "" {
			n.Labels[key] = value
		}
	}
	fields := map[string]any{}
	for key := range s.owned {
		fields["f:"+key] = struct{}{}
	}
	if len(fields) > 0 {
		written, _ := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:labels": fields}})
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-label", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(string(written))}}
	}
	return n
}

// works is one step of a capture: it writes the record, or it patches the Node, or it does nothing.
func (m *model) works(w *world, i int) (done bool) {
	c, last := w.captures[i], w.newest()
	entry, found := store.Entry{Record: last.Record}, len(w.records) > 1
	inputs := plan.Inputs{Policy: m.phases[0], GuardInForce: true, Now: now}
	if c.ended {
		inputs.Policy = m.phases[1]
	}
	pos := c.taken - 1
	s := w.log[pos]
	var next capture.Action
	if !c.blind {
		presence := capture.NodePresent
		if s.deleted {
			presence = capture.NodeDeleted
		}
		next = capture.Decide(entry, found, w.observe(pos), presence, inputs)
	}
	if (c.blind || s.deleted) && next.Record == nil {
		next = capture.DecideAbsent(entry, found, inputs)
	}
	seen := w.seen
	if !c.blind {
		w.seen |= 1 << pos
	}
	switch {
	case next.Record != nil:
		if err := w.write(*next.Record); err != nil {
			w.wrong = err.Error()
		}
		return true
	case next.Step != capture.NoStep && pos == len(w.log)-1 && !s.deleted: // a PATCH of an older state is refused
		m.patch(w, w.observe(pos), next.Plan)
		return true
	}
	return w.seen != seen
}

func (m *model) patch(w *world, node *observe.Node, change plan.Plan) {
	body, err := capture.PatchFor(node, change)
	if err != nil {
		w.wrong = err.Error()
		return
	}
	var patch struct {
		Metadata struct{ Labels, Annotations map[string]*string }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		w.wrong = err.Error()
		return
	}
	s := *w.tip()
	s.Edited, s.annotations, s.owned = oracle.NoKey, maps.Clone(s.annotations), maps.Clone(s.owned)
	if s.annotations == nil {
		s.annotations = map[string]string{}
	}
	for key, value := range patch.Metadata.Annotations {
		if delete(s.annotations, key); value != nil {
			s.annotations[key] = *value
		}
	}
	for key, value := range patch.Metadata.Labels {
		dest := &s.Old
		if key == newKey {
			dest = &s.New
		}
		prev := *dest
		if *dest = ""; value != nil {
			*dest = *value
		}
		if *dest != prev {
			delete(s.owned, key)
		}
	}
	w.push(s)
	if m.Rule == "" {
		w.wrong = oracle.Gap(w.history())
	}
}

// registers returns a CREATE, with what the webhook restores from a record; nil: the webhook is down.
func (m *model) registers(w *world, from *stored, fresh bool) bool {
	ended, equal := m.ended(w)
	checked := m.Rule == "" && fresh && ended && equal && m.idle(w)
	s := state{Renaming: oracle.Renaming{Object: m.Objects - w.left.Objects + 1}}
	w.left.Objects--
	if from != nil {
		n, known := m.created[from.sum]
		if !known {
			var err error
			if n, err = m.review(from, s.object()); err != nil {
				w.wrong = err.Error()
				return true
			}
			m.created[from.sum] = n
		}
		s.Old, s.New, s.annotations = n.Labels[oldKey], n.Labels[newKey], n.Annotations
	}
	w.push(s)
	if checked {
		w.wrong = oracle.Returned(w.history())
	}
	return true
}

// idle reports whether no capture has anything to do.
func (m *model) idle(w *world) bool {
	for _, s := range m.steps(w) {
		if next := *w; s.worked && s.run(&next) {
			return false
		}
	}
	return true
}

func (m *model) review(from *stored, n *corev1.Node) (*corev1.Node, error) {
	raw, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	h := webhook.NewHandler(records{from}, func() policy.Policy { return m.phases[0] }, m.metrics, slog.New(slog.DiscardHandler))
	answer := h.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "nodes"},
		Name: n.Name, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: "system:node:" + n.Name, Groups: []string{"system:nodes"}},
	}})
	if len(answer.Patches) > 0 {
		body, err := json.Marshal(answer.Patches)
		if err != nil {
			return nil, err
		}
		operations, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, err
		}
		if raw, err = operations.Apply(raw); err != nil {
			return nil, err
		}
	}
	updated := &corev1.Node{}
	return updated, json.Unmarshal(raw, updated)
}

// records is one record as the webhook knows it.
type records struct{ *stored }

func (r records) Get(string) (store.Entry, error) {
	if r.sum == (sum{}) {
		return store.Entry{}, store.ErrNotFound
	}
	return store.Entry{Record: r.Record}, nil
}

func (records) ListByMachine(record.Machine) ([]record.Record, error) { return nil, nil }
func (records) Progress() time.Time                                   { return time.Now() }
