package inventories

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/inventory/fetch"
)

const racksOfAMap = `labels: {rules: [{name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}]}
inventory: [{name: cmdb, configMap: racks, attributes: [rack]}]
`

// mapReader reads an inventory from a ConfigMap.
type mapReader struct {
	*process
	state   *state
	fetcher *fetch.Fetcher
}

// readsAMap returns a process that reads the source of the policy, in the cluster of another one if there is one.
func readsAMap(t *testing.T, prev ...*mapReader) *mapReader {
	t.Helper()
	p := newProcess(t, racksOfAMap)
	if len(prev) > 0 {
		p.Notes.Client, p.clock = prev[0].Notes.Client, prev[0].clock
	}
	source := p.policy.Inventory()[0]
	return &mapReader{process: p, state: p.stateOf(source), fetcher: fetch.New(source, p.readConfigMap, "")}
}

// says has the ConfigMap list these Nodes; none: it does not exist.
func (m *mapReader) says(nodes ...string) {
	var entries []string
	for _, name := range nodes {
		entries = append(entries, fmt.Sprintf(`{"name":%q,"attributes":{"rack":"r7"}}`, name))
	}
	m.set(entries...)
}

// set has the ConfigMap have these entries; none: it does not exist.
func (m *mapReader) set(entries ...string) {
	m.t.Helper()
	maps, ctx := m.Notes.Client.CoreV1().ConfigMaps(m.Notes.Namespace), m.t.Context()
	if err := maps.Delete(ctx, "racks", metav1.DeleteOptions{}); len(entries) == 0 {
		require.NoError(m.t, err)
		return
	}
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "racks"}, Data: map[string]string{fetch.Key: documentOf(entries)}}, metav1.CreateOptions{})
	require.NoError(m.t, err)
}

func (m *mapReader) reads() { _ = m.read(m.t.Context(), m.state, m.fetcher) }

func (m *mapReader) shown() SourceStatus {
	m.t.Helper()
	from, err := m.Notes.Client.CoreV1().ConfigMaps(m.Notes.Namespace).Get(m.t.Context(), InventoryName, metav1.GetOptions{})
	require.NoError(m.t, err)
	status, ok := SourceStatusOf(from, "cmdb")
	require.True(m.t, ok)
	return status
}

// noteWrites returns the writes of the ConfigMap with the status of each source.
func (m *mapReader) noteWrites() (count int) {
	for _, action := range m.Notes.Client.(*fake.Clientset).Actions() {
		named, ok := action.(interface{ GetName() string })
		if action.GetVerb() == "create" && action.GetResource().Resource == "configmaps" || ok && action.GetVerb() == "patch" && named.GetName() == InventoryName {
			count++
		}
	}
	return count
}

func TestANoteHasTheAgeOfTheFactsAndIsWrittenOnceAMinuteAtMost(t *testing.T) {
	m := readsAMap(t)
	m.says("n1")
	m.reads()
	first := m.shown()
	assert.Equal(t, truncateToSecond(now), first.Confirmed)
	assert.Equal(t, truncateToSecond(now), first.Applied)
	assert.Equal(t, 1, first.Nodes)

	writes := m.noteWrites()
	for range 59 {
		m.passes(time.Second)
		m.reads()
	}
	assert.Equal(t, writes, m.noteWrites())
	assert.Equal(t, truncateToSecond(now), m.shown().Confirmed)
	m.passes(time.Second)
	m.reads()
	assert.Equal(t, truncateToSecond(now.Add(time.Minute)), m.shown().Confirmed)
	assert.Equal(t, first.Applied, m.shown().Applied)

	m.passes(30 * time.Second)
	m.reads()
	m.says()
	m.passes(time.Second)
	m.reads()
	failed := m.shown()
	assert.Equal(t, string(fetch.Unreadable), failed.Failure)
	assert.Equal(t, truncateToSecond(now.Add(90*time.Second)), failed.Confirmed, "when it last answered, to the second")
	assert.Equal(t, first.InForce, failed.InForce)
	m.passes(time.Hour)
	m.reads()
	assert.Equal(t, failed, m.shown(), "a source that fails does not confirm anything")
}

func TestANoteThatAnotherClientHasSpoiltIsWrittenAnewThoughTheSourceFails(t *testing.T) {
	m := readsAMap(t)
	m.says("n1")
	m.reads()
	m.says()
	m.reads()
	want := m.shown()
	maps := m.Notes.Client.CoreV1().ConfigMaps(m.Notes.Namespace)
	from, err := maps.Get(t.Context(), InventoryName, metav1.GetOptions{})
	require.NoError(t, err)
	from.Data["cmdb"] = "{"
	_, err = maps.Update(t.Context(), from, metav1.UpdateOptions{})
	require.NoError(t, err)
	m.passes(statusInterval)
	m.reads()
	got := m.shown()
	assert.Equal(t, truncateToSecond(now.Add(statusInterval)), got.Applied, "since when is lost")
	got.Applied = want.Applied
	assert.Equal(t, want, got)

	require.NoError(t, maps.Delete(t.Context(), InventoryName, metav1.DeleteOptions{}))
	m.passes(statusInterval)
	m.reads()
	assert.Equal(t, want.InForce, m.shown().InForce)
}

func TestAProcessThatCannotReadTheSourceKeepsTheAgeThatTheOneBeforeNoted(t *testing.T) {
	prev := readsAMap(t)
	prev.says("n1")
	prev.reads()
	want := prev.shown()
	next := readsAMap(t, prev)
	next.says()
	next.passes(time.Hour)
	next.reads()
	want.Failure = string(fetch.Unreadable)
	assert.Equal(t, want, next.shown())
}

func TestTheFactsAgeWhileASnapshotIsHeld(t *testing.T) {
	m := readsAMap(t)
	m.says("n1", "n2", "n3")
	m.reads()
	m.says("n1")
	m.passes(2 * statusInterval)
	m.reads()
	status := m.shown()
	assert.NotEmpty(t, status.Held)
	assert.Equal(t, 2, status.Change.Lost)
	assert.Equal(t, []string{ChangesHeld}, m.warned)
	assert.Equal(t, truncateToSecond(now), status.Confirmed, "the source no longer says what is in force")
	m.says("n1", "n2", "n3")
	m.passes(time.Second)
	m.reads()
	assert.Empty(t, m.shown().Held)
	assert.Equal(t, truncateToSecond(now.Add(2*statusInterval+time.Second)), m.shown().Confirmed)
}

func TestNewRulesWaitForASourceThatWasInForceAndForNoOther(t *testing.T) {
	m := readsAMap(t)
	known := func(m *mapReader) bool { return m.Known(m.policy) }
	assert.False(t, known(m), "it may answer at once")
	m.reads()
	assert.True(t, known(m), "there is no such ConfigMap, and never was")
	m.says("n1")
	m.reads()
	assert.True(t, known(m))

	next := readsAMap(t, m)
	next.says()
	next.reads()
	assert.False(t, known(next), "what it says again would not be held: it was in force before the restart")
}

func TestNewRulesDoNotWaitUntilTheFirstSnapshotOfASourceIsAccepted(t *testing.T) {
	m := readsAMap(t)
	first := inventory.Snapshot{}
	m.state.held = &first
	require.NoError(t, m.updateStatus(t.Context(), m.state, nil))
	assert.True(t, m.Known(m.policy))
}

func TestANoteNamesAWrongMachineAtTheNextReadThoughTheDocumentIsTheSame(t *testing.T) {
	m := readsAMap(t)
	m.set(`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r7"}}`)
	m.reads()
	assert.Empty(t, m.shown().Problems)
	m.machines["n1"] = "other"
	m.passes(time.Second)
	m.reads()
	want := []inventory.Problem{{Node: "n1", Message: `systemUUID is "uuid-n1", and the Node reports "other"`}}
	assert.Equal(t, want, m.shown().Problems)

	next := readsAMap(t, m)
	next.set()
	next.reads()
	assert.Equal(t, want, next.shown().Problems, "what a process before this one has read is still in force")
	assert.Equal(t, 1, next.shown().ProblemCount)
}

func TestANoteNamesAttributesThatTheInventoryHasOfNoNode(t *testing.T) {
	m := readsAMap(t)
	m.set(`{"name":"n1","attributes":{"rakc":"r7"}}`)
	m.reads()
	assert.Equal(t, []string{"rack"}, m.shown().Missing)

	next := readsAMap(t, m)
	next.set()
	next.reads()
	assert.Equal(t, []string{"rack"}, next.shown().Missing, "what a process before this one has read is still in force")
	next.says("n1")
	next.reads()
	assert.Empty(t, next.shown().Missing)
}
