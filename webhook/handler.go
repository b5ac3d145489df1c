package webhook

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Records is where the handler reads records; Get must answer from memory.
type Records interface {
	Get(node string) (store.Entry, error)
	// ListByMachine returns the records that [record.Predecessor] chooses from; it must answer from memory, too.
	ListByMachine(m record.Machine) ([]record.Record, error)
	// Progress is when the records were last known to be current; the zero time while they are not watched.
	Progress() time.Time
}

// StaleAfter is how long the watch of records may be silent before the handler stops removing the gate. Without an open watch it stops at
// once. A watch ends after 48 s. If anything changed in etcd since the last event, a working API server then sends an event or a bookmark.
// If nothing else changes, its own check of etcd's size does, up to 96 s later (Kubernetes 1.34, k8s.io/apiserver).
const StaleAfter = 110 * time.Second

// maxObjectBytes is the largest Node that gets labels and taints, these included. etcd takes 1.5 MiB at most.
const maxObjectBytes = 1 << 20

// Handler restores what a registering Node lacks. It is the only part of the package that reads the store, and it has no
// side effects. It never denies.
type Handler struct {
	records Records
	policy  func() policy.Policy
	metrics *Metrics
	logger  *slog.Logger
	now     func() time.Time
	decide  decider
	// warnings are logged once a second, since any client may send requests. The metric counts all.
	warnings rate.Sometimes
}

// NewHandler makes the handler that restores; currentPolicy is asked at each request.
func NewHandler(records Records, currentPolicy func() policy.Policy, metrics *Metrics, logger *slog.Logger) *Handler {
	return &Handler{records: records, policy: currentPolicy, metrics: metrics, logger: logger, now: time.Now, decide: decide, warnings: rate.Sometimes{Interval: time.Second}}
}

// NewProtectedHandler makes the handler that the API server calls before the one that restores. If the inline route works, the API server
// calls it again afterwards, and it then adds protected labels. It does nothing unless the policy asks for it and proved says that this API
// server takes it.
func NewProtectedHandler(records Records, currentPolicy func() policy.Policy, proved func() bool, metrics *Metrics, logger *slog.Logger) *Handler {
	h := NewHandler(records, currentPolicy, metrics, logger)
	h.decide = func(in incoming, k known, p policy.Policy) decision {
		if !in.selfTest && !proved() {
			p = p.WithProtected(policy.Deferred)
		}
		return decideProtected(in, k, p)
	}
	return h
}

var _ admission.Handler = (*Handler)(nil)

// Handle answers one request: allowed, with or without a patch.
func (h *Handler) Handle(_ context.Context, request admission.Request) admission.Response {
	started := h.now()
	p := h.policy()
	in, err := decode(&request.AdmissionRequest, p)
	if err != nil {
		return h.passOver(request, err)
	}
	k := h.known(in.node, p)
	if in.selfTest {
		k, p = selfTest(p.Gate())
	}
	a := answerTo(in, k, p, h.decide)
	d := a.decision
	if d.outcome == tooLarge {
		h.warnings.Do(func() {
			h.logger.Error("node is too large to be given labels and taints; capture tries to give them back", "node", short(in.node), "bytes", in.size)
		})
	}
	h.metrics.reviewed(d.outcome, h.now().Sub(started))
	h.metrics.planned(d)
	h.logger.Debug("reviewed node", "node", in.node, "outcome", d.outcome, "edits", len(d.Edits), "withheld", len(d.Withheld))
	return admission.Patched("", a.operations...)
}

// known looks the Node up. After any error there, nothing is restored.
func (h *Handler) known(node string, p policy.Policy) known {
	entry, err := h.records.Get(node)
	k := known{
		record:     entry.Record,
		found:      !errors.Is(err, store.ErrNotFound),
		unreadable: err != nil && !errors.Is(err, store.ErrNotFound),
		current:    h.now().Sub(h.records.Progress()) < StaleAfter,
		now:        h.now(),
	}
	if p.Follows() && (!k.found || err == nil) {
		k.follow = func(node string, machine record.Machine) (record.Record, bool) {
			return h.follow(node, machine, p.EarlierRetention(k.now))
		}
	}
	return k
}

// follow returns the record for a Node without one. It is the zero Record if its machine follows no record. If undecided, the machine may yet
// follow one. A record of it exists, and capture finds out whether its Node is deleted. Until then it has the taints that any of them had.
func (h *Handler) follow(node string, machine record.Machine, keeping record.EarlierRetention) (r record.Record, undecided bool) {
	records, err := h.records.ListByMachine(machine)
	if err != nil {
		h.warnings.Do(func() { h.logger.Error("records of a machine cannot be found; nothing is followed", "error", err) })
		return record.Record{}, true
	}
	records = keeping.Flatten(records)
	old, found, several := record.Predecessor(node, machine, records)
	if !found {
		r, names := record.TaintsOnlyOf(node, machine, records)
		return r, len(several)+len(names) > 0
	}
	return observe.Follow(old, node, machine, keeping.Now), false
}

func (h *Handler) passOver(request admission.Request, err error) admission.Response {
	if errors.Is(err, ErrNotOurs) {
		h.metrics.passedOver(notOurs)
		return admission.Allowed("")
	}
	h.warnings.Do(func() {
		h.logger.Warn("node in the request cannot be read; it is let through as it is", "node", short(request.Name), "error", short(err.Error()))
	})
	h.metrics.passedOver(malformedNode)
	return admission.Allowed("")
}
