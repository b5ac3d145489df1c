package observe

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestTheFirstRecordOfANodeThatFollowsAnotherOneSaysWhatIsFromThere(t *testing.T) {
	machine := record.Machine{SystemUUID: "4c4c4544-0051-3010-8052-b4c04f4a3132"}
	for name, c := range map[string]struct {
		old     string
		items   labels
		waiting labels // in the old record already
		shown   labels
		waits   labels
		lines   []string
	}{
		"labels that a kubelet may set, taints and annotations": {
			old: "old", items: labels{"k": "v", "t:NoSchedule": "x", "@note": "n"}, shown: labels{"k": "v", "t:NoSchedule": "x", "@note": "n"},
		},
		"labels that no kubelet may set wait": {
			old: "old", items: labels{"k": "v", worker: "", "node-restriction.kubernetes.io/tier": "gold"}, shown: labels{"k": "v"}, waits: labels{worker: "", "node-restriction.kubernetes.io/tier": "gold"},
			lines: []string{`1: 0s ago "followed old" {"k":{"to":"v"}}`},
		},
		"only such labels": {
			old: "old", items: labels{worker: ""}, shown: labels{}, waits: labels{worker: ""},
		},
		"and those that waited there": {
			old: "old", items: labels{"k": "v"}, waiting: labels{worker: ""}, shown: labels{"k": "v"}, waits: labels{worker: ""},
			lines: []string{`1: 0s ago "followed old" {"k":{"to":"v"}}`},
		},
		"nothing": {
			old: "old", items: labels{}, shown: labels{},
		},
		"a name of the greatest length is shortened where it is an actor": {
			old: strings.Repeat("x", 253), items: labels{"k": "v"}, shown: labels{"k": "v"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := remembering("a", 5, c.items)
			old.Node, old.Cluster, old.DeletedAt = c.old, "there", now.Add(-time.Hour)
			old = withHistory(old, 7)
			if c.waiting != nil {
				held := remembering("", 0, c.waiting)
				old.Followed, old.Quarantined = "older", &held
			}
			r := Follow(old, "n1", machine, now)
			assert.Equal(t, "n1", r.Node)
			assert.Equal(t, c.old, r.Followed)
			assert.Equal(t, machine, r.Machine)
			assert.Equal(t, c.shown, r.Items())
			assert.Empty(t, r.Seen, "nothing was seen of an object yet")
			assert.Zero(t, r.DeletedAt)
			if c.waits == nil {
				assert.Nil(t, r.Quarantined)
			} else {
				assert.Equal(t, c.waits, r.Quarantined.Items())
			}
			var changes []history.Change
			if r.History != nil {
				require.NoError(t, json.Unmarshal(r.History, &changes))
			}
			for _, change := range changes {
				assert.LessOrEqual(t, len(change.Actor), 128)
				assert.True(t, strings.HasPrefix(change.Actor, "followed "+c.old[:3]))
			}
			if c.lines != nil {
				assert.Equal(t, c.lines, lines(changes))
			}
			if len(c.shown) == 0 {
				assert.Empty(t, changes)
			} else {
				assert.Len(t, changes, 1, "the history of the old name stays there")
			}
			_, err := record.Encode(r)
			require.NoError(t, err, "it can be stored")
		})
	}
}
