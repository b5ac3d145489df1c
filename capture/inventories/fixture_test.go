package inventories

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/storetest"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// process is one that leads, with a clock, machines of Nodes and records of the test.
type process struct {
	*Sources
	storetest.Memory
	t        *testing.T
	policy   policy.Policy
	clock    *time.Time
	machines map[string]string
	writes   []string
	warned   []string
}

func newProcess(t *testing.T, sections string) *process {
	t.Helper()
	loaded, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	clock := now
	p := &process{t: t, policy: loaded, clock: &clock, machines: map[string]string{}}
	p.Sources = New(Options{
		Notes: store.ConfigMapNotes{Client: fake.NewClientset()}, Policy: func() policy.Policy { return p.policy }, Controller: nodes{p}, Records: records{&p.Memory, p},
		ClusterUID: func() string { return "" }, CountAltered: func(policy.Policy, map[string]inventory.Snapshot) (altered, total int) {
			return 0, len(p.machines)
		},
		OnChange: func() {}, Warn: func(reason, _ string, _ ...any) { p.warned = append(p.warned, reason) },
		Now: func() time.Time { return *p.clock }, Logger: slog.New(slog.DiscardHandler),
	})
	return p
}

func (p *process) passes(d time.Duration) { *p.clock = p.clock.Add(d) }

// holds stores a record.
func (p *process) holds(r record.Record) {
	p.t.Helper()
	_, err := p.Put(p.t.Context(), r, "")
	require.NoError(p.t, err)
}

// record returns what is stored for n1.
func (p *process) record() record.Record {
	p.t.Helper()
	entry, err := p.GetFromAPI(p.t.Context(), "n1")
	require.NoError(p.t, err)
	return entry.Record
}

// wrote returns the names of the records that were written since it was last asked.
func (p *process) wrote() (names []string) {
	names, p.writes = p.writes, nil
	return names
}

// nodes are those whose machines the test knows. This process leads.
type nodes struct{ *process }

func (n nodes) Leading() bool                                     { return true }
func (n nodes) SystemUUIDs() map[string]string                    { return n.machines }
func (n nodes) LockNode(string) (release func())                  { return func() {} }
func (n nodes) CallRecovering(_, _ string, fn func() error) error { return fn() }
func (n nodes) Tracks(node string) bool {
	_, lives := n.machines[node]
	return lives
}

// records are the memory of the test, and note each write.
type records struct {
	*storetest.Memory
	process *process
}

func (r records) Put(ctx context.Context, next record.Record, version string) (store.Entry, error) {
	r.process.writes = append(r.process.writes, "put "+next.Node)
	return r.Memory.Put(ctx, next, version)
}
