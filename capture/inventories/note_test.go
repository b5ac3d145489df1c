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
	of      *state
	fetcher *fetch.Fetcher
}

// readsAMap returns a process that reads the source of the policy, in the cluster of another one if there is one.
func readsAMap(t *testing.T, before ...*mapReader) *mapReader {
	t.Helper()
	p := newProcess(t, racksOfAMap)
	if len(before) > 0 {
		p.Notes.Client, p.clock = before[0].Notes.Client, before[0].clock
	}
	source := p.policy.Inventory()[0]
	return &mapReader{process: p, of: p.stateOf(source), fetcher: fetch.New(source, p.configMap, "")}
}

// says has the ConfigMap list these Nodes; none: it does not exist.
func (m *mapReader) says(nodes ...string) {
	var entries []string
	for _, name := range nodes {
		entries = append(entries, fmt.Sprintf(`{"name":%q,"attributes":{"rack":"r7"}}`, name))
	}
	m.has(entries...)
}

// has has the ConfigMap have these entries; none: it does not exist.
func (m *mapReader) has(entries ...string) {
	m.t.Helper()
	maps, ctx := m.Notes.Client.CoreV1().ConfigMaps(m.Notes.Namespace), m.t.Context()
	if err := maps.Delete(ctx, "racks", metav1.DeleteOptions{}); len(entries) == 0 {
		require.NoError(m.t, err)
		return
	}
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "racks"}, Data: map[string]string{fetch.Key: documentOf(entries)}}, metav1.CreateOptions{})
	require.NoError(m.t, err)
}

func (m *mapReader) reads() { _ = m.read(m.t.Context(), m.of, m.fetcher) }

func (m *mapReader) shown() InventoryNote {
	m.t.Helper()
	from, err := m.Notes.Client.CoreV1().ConfigMaps(m.Notes.Namespace).Get(m.t.Context(), InventoryName, metav1.GetOptions{})
	require.NoError(m.t, err)
	note, ok := InventoryNoteOf(from, "cmdb")
	require.True(m.t, ok)
	return note
}

// noteWrites returns the writes of the ConfigMap of notes.
func (m *mapReader) noteWrites() (count int) {
	for _, action := range m.Notes.Client.(*fake.Clientset).Actions() {
		named, is := action.(interface{ GetName() string })
		if action.GetVerb() == "create" && action.GetResource().Resource == "configmaps" || is && action.GetVerb() == "patch" && named.GetName() == InventoryName {
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
	assert.Equal(t, recorded(now), first.Confirmed)
	assert.Equal(t, recorded(now), first.Since)
	assert.Equal(t, 1, first.Nodes)

	writes := m.noteWrites()
	for range 59 {
		m.passes(time.Second)
		m.reads()
	}
	assert.Equal(t, writes, m.noteWrites())
	assert.Equal(t, recorded(now), m.shown().Confirmed)
	m.passes(time.Second)
	m.reads()
	assert.Equal(t, recorded(now.Add(time.Minute)), m.shown().Confirmed)
	assert.Equal(t, first.Since, m.shown().Since)

	m.passes(30 * time.Second)
	m.reads()
	m.says()
	m.passes(time.Second)
	m.reads()
	failed := m.shown()
	assert.Equal(t, string(fetch.Unreadable), failed.Failure)
	assert.Equal(t, recorded(now.Add(90*time.Second)), failed.Confirmed, "when it last answered, to the second")
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
	m.passes(noteInterval)
	m.reads()
	got := m.shown()
	assert.Equal(t, recorded(now.Add(noteInterval)), got.Since, "since when is lost")
	got.Since = want.Since
	assert.Equal(t, want, got)

	require.NoError(t, maps.Delete(t.Context(), InventoryName, metav1.DeleteOptions{}))
	m.passes(noteInterval)
	m.reads()
	assert.Equal(t, want.InForce, m.shown().InForce)
}

func TestAProcessThatCannotReadTheSourceKeepsTheAgeThatTheOneBeforeNoted(t *testing.T) {
	before := readsAMap(t)
	before.says("n1")
	before.reads()
	want := before.shown()
	after := readsAMap(t, before)
	after.says()
	after.passes(time.Hour)
	after.reads()
	want.Failure = string(fetch.Unreadable)
	assert.Equal(t, want, after.shown())
}

func TestTheFactsAgeWhileASnapshotIsHeld(t *testing.T) {
	m := readsAMap(t)
	m.says("n1", "n2", "n3")
	m.reads()
	m.says("n1")
	m.passes(2 * noteInterval)
	m.reads()
	note := m.shown()
	assert.NotEmpty(t, note.Held)
	assert.Equal(t, 2, note.Change.Lost)
	assert.Equal(t, []string{ChangesHeld}, m.warned)
	assert.Equal(t, recorded(now), note.Confirmed, "the source no longer says what is in force")
	m.says("n1", "n2", "n3")
	m.passes(time.Second)
	m.reads()
	assert.Empty(t, m.shown().Held)
	assert.Equal(t, recorded(now.Add(2*noteInterval+time.Second)), m.shown().Confirmed)
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

	after := readsAMap(t, m)
	after.says()
	after.reads()
	assert.False(t, known(after), "what it says again would not be held: it was in force before the restart")
}

func TestNewRulesDoNotWaitUntilTheFirstSnapshotOfASourceIsAccepted(t *testing.T) {
	m := readsAMap(t)
	first := inventory.Snapshot{}
	m.of.held = &first
	require.NoError(t, m.note(t.Context(), m.of, nil))
	assert.True(t, m.Known(m.policy))
}

func TestANoteNamesAWrongMachineAtTheNextReadThoughTheDocumentIsTheSame(t *testing.T) {
	m := readsAMap(t)
	m.has(`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r7"}}`)
	m.reads()
	assert.Empty(t, m.shown().Problems)
	m.machines["n1"] = "other"
	m.passes(time.Second)
	m.reads()
	want := []inventory.Problem{{Node: "n1", What: `systemUUID is "uuid-n1", and the Node reports "other"`}}
	assert.Equal(t, want, m.shown().Problems)

	after := readsAMap(t, m)
	after.has()
	after.reads()
	assert.Equal(t, want, after.shown().Problems, "what a process before this one has read is still in force")
	assert.Equal(t, 1, after.shown().Wrong)
}

func TestANoteNamesAttributesThatTheInventoryHasOfNoNode(t *testing.T) {
	m := readsAMap(t)
	m.has(`{"name":"n1","attributes":{"rakc":"r7"}}`)
	m.reads()
	assert.Equal(t, []string{"rack"}, m.shown().Missing)

	after := readsAMap(t, m)
	after.has()
	after.reads()
	assert.Equal(t, []string{"rack"}, after.shown().Missing, "what a process before this one has read is still in force")
	after.says("n1")
	after.reads()
	assert.Empty(t, after.shown().Missing)
}
