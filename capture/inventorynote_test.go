package capture

import (
	"fmt"
	"slices"
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

// mapReader is a replica that reads an inventory from a ConfigMap.
type mapReader struct {
	*replica
	state   *inventoryState
	fetcher *fetch.Fetcher
}

func (w *cluster) readsAMap(modify ...func(*Options)) *mapReader {
	r := w.leader(modify...)
	source := w.policy.Inventory()[0]
	return &mapReader{replica: r, state: r.inventories.state(source), fetcher: fetch.New(source, r.inventoryMap, "")}
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
	m.cluster.t.Helper()
	maps, ctx := m.Client.CoreV1().ConfigMaps(m.Namespace), m.cluster.t.Context()
	if err := maps.Delete(ctx, "racks", metav1.DeleteOptions{}); len(entries) == 0 {
		require.NoError(m.cluster.t, err)
		return
	}
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "racks"}, Data: map[string]string{fetch.Key: documentOf(entries)}}, metav1.CreateOptions{})
	require.NoError(m.cluster.t, err)
}

func (m *mapReader) reads() { _ = m.readInventory(m.cluster.t.Context(), m.state, m.fetcher) }

func (m *mapReader) note() InventoryNote {
	m.cluster.t.Helper()
	from, err := m.Client.CoreV1().ConfigMaps(m.Namespace).Get(m.cluster.t.Context(), InventoryName, metav1.GetOptions{})
	require.NoError(m.cluster.t, err)
	note, ok := InventoryNoteOf(from, "cmdb")
	require.True(m.cluster.t, ok)
	return note
}

// noteWrites are the writes of the ConfigMap of notes.
func (m *mapReader) noteWrites() (count int) {
	for _, action := range m.Client.(*fake.Clientset).Actions() {
		named, is := action.(interface{ GetName() string })
		if action.GetVerb() == "create" && action.GetResource().Resource == "configmaps" || is && action.GetVerb() == "patch" && named.GetName() == InventoryName {
			count++
		}
	}
	return count
}

func TestANoteHasTheAgeOfTheFactsAndIsWrittenOnceAMinuteAtMost(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	m.says("n1")
	m.reads()
	first := m.note()
	assert.Equal(t, stored(now), first.Confirmed)
	assert.Equal(t, stored(now), first.Since)
	assert.Equal(t, 1, first.Nodes)

	writes := m.noteWrites()
	for range 59 {
		w.passes(time.Second)
		m.reads()
	}
	assert.Equal(t, writes, m.noteWrites())
	assert.Equal(t, stored(now), m.note().Confirmed)
	w.passes(time.Second)
	m.reads()
	assert.Equal(t, stored(now.Add(time.Minute)), m.note().Confirmed)
	assert.Equal(t, first.Since, m.note().Since)

	w.passes(30 * time.Second)
	m.reads()
	m.says()
	w.passes(time.Second)
	m.reads()
	failed := m.note()
	assert.Equal(t, string(fetch.Unreadable), failed.Failure)
	assert.Equal(t, stored(now.Add(90*time.Second)), failed.Confirmed, "when it last answered, to the second")
	assert.Equal(t, first.InForce, failed.InForce)
	w.passes(time.Hour)
	m.reads()
	assert.Equal(t, failed, m.note(), "a source that fails does not confirm anything")
}

func TestANoteThatAnotherClientHasSpoiltIsWrittenAnewThoughTheSourceFails(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	m.says("n1")
	m.reads()
	m.says()
	m.reads()
	want := m.note()
	maps := m.Client.CoreV1().ConfigMaps(m.Namespace)
	from, err := maps.Get(t.Context(), InventoryName, metav1.GetOptions{})
	require.NoError(t, err)
	from.Data["cmdb"] = "{"
	_, err = maps.Update(t.Context(), from, metav1.UpdateOptions{})
	require.NoError(t, err)
	w.passes(noteInterval)
	m.reads()
	got := m.note()
	assert.Equal(t, stored(now.Add(noteInterval)), got.Since, "since when is lost")
	got.Since = want.Since
	assert.Equal(t, want, got)

	require.NoError(t, maps.Delete(t.Context(), InventoryName, metav1.DeleteOptions{}))
	w.passes(noteInterval)
	m.reads()
	assert.Equal(t, want.InForce, m.note().InForce)
}

func TestAProcessThatCannotReadTheSourceKeepsTheAgeThatTheOneBeforeNoted(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	before := w.readsAMap()
	before.says("n1")
	before.reads()
	want := before.note()
	after := w.readsAMap(func(o *Options) { o.Client = before.Client })
	after.says()
	w.passes(time.Hour)
	after.reads()
	want.Failure = string(fetch.Unreadable)
	assert.Equal(t, want, after.note())
}

func TestTheFactsAgeWhileASnapshotIsHeld(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	m.says("n1", "n2", "n3")
	m.reads()
	m.says("n1")
	w.passes(2 * noteInterval)
	m.reads()
	note := m.note()
	assert.NotEmpty(t, note.Held)
	assert.Equal(t, 2, note.Change.Lost)
	assert.Equal(t, stored(now), note.Confirmed, "the source no longer says what is in force")
	m.says("n1", "n2", "n3")
	w.passes(time.Second)
	m.reads()
	assert.Empty(t, m.note().Held)
	assert.Equal(t, stored(now.Add(2*noteInterval+time.Second)), m.note().Confirmed)
}

func TestNewRulesWaitForASourceThatWasInForceAndForNoOther(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	known := func(m *mapReader) bool { return m.inventories.known(w.policy, m.Now()) }
	assert.False(t, known(m), "it may answer at once")
	m.reads()
	assert.True(t, known(m), "there is no such ConfigMap, and never was")
	m.says("n1")
	m.reads()
	assert.True(t, known(m))

	after := w.readsAMap(func(o *Options) { o.Client = m.Client })
	after.says()
	after.reads()
	assert.False(t, known(after), "what it says again would not be held: it was in force before the restart")
}

func TestNewRulesDoNotWaitUntilTheFirstSnapshotOfASourceIsAccepted(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	first := inventory.Snapshot{}
	m.state.held = &first
	require.NoError(t, m.noteInventory(t.Context(), m.state, nil))
	assert.True(t, m.inventories.known(w.policy, m.Now()))
}

func TestWhatAnInventoryHasWrongOfANodeIsAnEventOfThatNodeAndNoted(t *testing.T) {
	const wrong = `{"name":"n1","systemUUID":"other","attributes":{"rack":"r7"}}`
	for name, c := range map[string]struct{ entry, problem, shows string }{
		"another machine":        {wrong, `systemUUID is "other", and the Node reports "uuid-n1"`, "r1"},
		"no machine":             {`{"name":"n1","systemUUID":17,"attributes":{"rack":"r7"}}`, "systemUUID must be a string", "r1"},
		"an attribute":           {`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":7,"unlisted":7}}`, "attribute rack must be a string", "r1"},
		"nothing but unlisted":   {`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r7","unlisted":7}}`, "", "r7"},
		"a wrong one elsewhere":  {`{"name":"n1","attributes":{"rack":"r7"}},{"name":"n9","attributes":{"rack":7}}`, "", "r7"},
		"an entry of no machine": {`{"name":"n1","attributes":{"rack":"r7"}}`, "", "r7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, racksOfAMap)
			m := w.readsAMap()
			m.rollout.release(w.policy.RulesHash())
			w.register(node("a", "10", nil, machine("UUID-n1")))
			reads := func(entries ...string) {
				m.has(entries...)
				w.passes(time.Second)
				m.reads()
				require.Empty(t, m.works())
				m.wrote()
			}
			reads(`{"name":"n1","attributes":{"rack":"r1"}}`)
			assert.Equal(t, "r1", w.shows()["example.com/rack"])
			assert.NotContains(t, m.reported(), InventoryWrong)
			reads(c.entry)
			assert.Equal(t, c.shows, w.shows()["example.com/rack"])
			about := slices.DeleteFunc(m.note().Problems, func(p inventory.Problem) bool { return p.Node != "n1" })
			if c.problem == "" {
				assert.NotContains(t, m.reported(), InventoryWrong)
				assert.Empty(t, about)
				return
			}
			assert.Equal(t, []inventory.Problem{{Node: "n1", What: c.problem}}, about)
			assert.Equal(t, 1, m.note().Wrong)
			assert.Contains(t, m.reported(), InventoryWrong)
			m.rests()
			assert.NotContains(t, m.reported(), InventoryWrong, "once")
			reads(`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r8"}}`)
			assert.Equal(t, "r8", w.shows()["example.com/rack"])
			assert.Empty(t, m.note().Problems)
			assert.Zero(t, m.note().Wrong)
		})
	}
}

func TestANoteNamesAWrongMachineAtTheNextReadThoughTheDocumentIsTheSame(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	m.has(`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r7"}}`)
	m.reads()
	assert.Empty(t, m.note().Problems)
	w.register(node("a", "10", nil, machine("other")))
	w.passes(time.Second)
	m.reads()
	want := []inventory.Problem{{Node: "n1", What: `systemUUID is "uuid-n1", and the Node reports "other"`}}
	assert.Equal(t, want, m.note().Problems)

	after := w.readsAMap(func(o *Options) { o.Client = m.Client })
	after.has()
	after.reads()
	assert.Equal(t, want, after.note().Problems, "what a process before this one has read is still in force")
	assert.Equal(t, 1, after.note().Wrong)
}

func TestANoteNamesAttributesThatTheInventoryHasOfNoNode(t *testing.T) {
	w := newCluster(t, racksOfAMap)
	m := w.readsAMap()
	m.has(`{"name":"n1","attributes":{"rakc":"r7"}}`)
	m.reads()
	assert.Equal(t, []string{"rack"}, m.note().Missing)

	after := w.readsAMap(func(o *Options) { o.Client = m.Client })
	after.has()
	after.reads()
	assert.Equal(t, []string{"rack"}, after.note().Missing, "what a process before this one has read is still in force")
	after.says("n1")
	after.reads()
	assert.Empty(t, after.note().Missing)
}
