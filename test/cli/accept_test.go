package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

// quarantined writes a record of a deleted Node, whose name two machines have had.
func quarantined(t *testing.T, node string) {
	t.Helper()
	nodekeep.Quarantine(t)
	old := record.New(node, record.Object{UID: "old", Version: 1}, map[string]string{"rack": "r1", "dedicated": "ci", "tenant:NoSchedule": "blue"})
	old.Machine = record.Machine{SystemUUID: "aaaa"}
	r := record.New(node, record.Object{UID: "new", Version: 2}, map[string]string{"rack": "r2", "fresh": ""})
	r.Machine, r.DeletedAt, r.Quarantined = record.Machine{SystemUUID: "bbbb"}, time.Now().UTC().Truncate(time.Second), &old
	_, err := records(t).Put(t.Context(), r, "")
	require.NoError(t, err)
}

func TestAcceptShowsBothMachinesAndHasCaptureCarryOutWhatWasDecided(t *testing.T) {
	for side, want := range map[string]map[string]string{
		"old": {"rack": "r1", "dedicated": "ci", "tenant:NoSchedule": "blue"},
		"new": {"rack": "r2", "fresh": ""},
	} {
		name := "accept-" + side
		quarantined(t, name)
		a := answering(t, "no\n", "accept", "record", name, "--machine", side)
		assert.Equal(t, 3, a.Code)
		require.NotNil(t, recordOf(t, name).Quarantined)

		a = answering(t, "yes\n", "accept", "record", name, "--machine", side)
		require.Equal(t, 0, a.Code, a.ErrOut)
		assert.Equal(t, "node/"+name+": machine \""+side+"\" accepted\n", a.Out)
		requireGolden(t, name, a.ErrOut)
		eventually(t, name, func(r record.Record) bool { return r.Quarantined == nil })
		assert.Equal(t, want, recordOf(t, name).Items())
		assert.Equal(t, "bbbb", recordOf(t, name).Machine.SystemUUID)

		ends(t, 3, "there is nothing to decide", "accept", "record", name, "--machine", side, "--yes")
	}
}

func TestAnAcceptedSideThatCaptureHasNotSeenYetIsNotAskedForAgain(t *testing.T) {
	quarantined(t, "accept-twice")
	nodekeep.WithoutCapture(t, func() {
		accepts := func(args ...string) string {
			a := run(t, append([]string{"accept", "record", "accept-twice", "--machine"}, args...)...)
			assert.Zero(t, a.Code, a.ErrOut)
			assert.Regexp(t, `^No capture has led for \d+s, so nothing is carried out until one does.\n$`, a.ErrOut)
			return a.Out
		}
		accepts("old", "--yes")
		assert.Contains(t, accepts("old"), "was accepted before")
		accepts("new", "--yes")
	})
	eventually(t, "accept-twice", func(r record.Record) bool { return r.Quarantined == nil && r.Items()["rack"] == "r2" })
}
