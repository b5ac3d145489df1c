package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// A client changes what a rule has left, and sets it back between the two writes of capture: the record, then the Node.
func TestWhatAClientSetsBackToWhatARuleLeftIsTheClients(t *testing.T) {
	const key = newKey
	rule := "labels:\n  rules:\n  - {name: r, "
	for name, c := range map[string]struct {
		policy string
		left   string // by the rule; empty: it removes the label
	}{
		"the new key of a migration":          {migrating(policy.MigrateBoth), "one"},
		"the label of a rule":                 {rule + "set: {" + key + ": one}}\n", "one"},
		"the label of a rule that wins":       {rule + "set: {" + key + ": one}, precedence: rule}\n", "one"},
		"a label that a rule keeps off Nodes": {rule + "ensureAbsent: [" + key + "]}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", node("a", "10", labels{oldKey: "one"}, owned("kubectl-label", oldKey)))
			r := w.leader()
			r.follows(c.policy)
			shown := labels{oldKey: "one"}
			if c.left != "" {
				shown[key] = c.left
			}
			require.Equal(t, shown, w.shows())

			setBack := false
			r.meanwhile("patch n1", func() {
				setBack = true
				assert.Equal(t, "two", w.record().Items()[key], "the record has the client's other value")
				if c.left == "" {
					w.unset(key)
				} else {
					w.label(key, c.left)
				}
			})
			w.label(key, "two")
			require.Empty(t, r.works())
			require.True(t, setBack)
			assert.Equal(t, shown, w.shows(), "the other value is not restored")
			assert.Equal(t, shown, w.record().Items(), "the last decision is the client's")

			r.follows("")
			assert.Equal(t, shown, w.shows(), "the rule takes nothing of the client's away")
		})
	}
}

func TestSinceWhenALabelIsAsItsRuleWantsIt(t *testing.T) {
	const rules = "labels:\n  rules:\n  - {name: r, set: {tier: gold}, precedence: rule}\n  - {name: r2, set: {rack: r1}}\n  - {name: r3, ensureAbsent: [joined]}\n"
	w := newCluster(t, "", node("a", "10", labels{"joined": "1"}))
	base := func() map[string]record.Version {
		versions := map[string]record.Version{}
		for key, label := range observe.FromNode(w.node()).AnnotatedLabels() {
			versions[key] = label.Version
		}
		return versions
	}
	r := w.leader()
	r.follows(rules)
	first := base()
	require.Len(t, first, 3)
	prev := record.Version(10)
	assert.Equal(t, map[string]record.Version{"tier": prev, "rack": prev, "joined": prev}, first, "the state that was patched")

	w.label("other", "1")
	require.Empty(t, r.works())
	assert.Equal(t, first, base(), "they are as they were")

	w.label("tier", "iron")
	edited := observe.FromNode(w.node()).Version
	require.Empty(t, r.works())
	assert.Equal(t, map[string]record.Version{"tier": edited, "rack": prev, "joined": prev}, base(), "one was set again")

	w.label("joined", "1")
	edited = observe.FromNode(w.node()).Version
	require.Empty(t, r.works())
	assert.Equal(t, edited, base()["joined"], "it was removed again")
	assert.Equal(t, prev, base()["rack"])
}
