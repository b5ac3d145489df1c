package record_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

const (
	uuidA = "4c4c4544-0051-3010-8052-b4c04f4a3132"
	uuidB = "9e3a1f70-77aa-4d0e-a8c1-0b5d52f1c9aa"
	idA   = "5f0a2c6ee3b44d47a4b7ad1d5b0b7a3d"
)

func TestMachinesOfTwoNamesAgree(t *testing.T) {
	for name, c := range map[string]struct {
		a, b record.Machine
		want bool
	}{
		"with the same systemUUID":                                    {record.Machine{SystemUUID: uuidA}, record.Machine{SystemUUID: uuidA, MachineID: idA}, true},
		"with the same machineID":                                     {record.Machine{MachineID: idA}, record.Machine{MachineID: idA}, true},
		"with the same providerID":                                    {record.Machine{ProviderID: "metal://rack-1/17"}, record.Machine{ProviderID: "metal://rack-1/17"}, true},
		"not when one that both know differs":                         {record.Machine{SystemUUID: uuidA, MachineID: idA}, record.Machine{SystemUUID: uuidB, MachineID: idA}, false},
		"not when the providerID is the same and another one differs": {record.Machine{ProviderID: "metal://rack-1/17", SystemUUID: uuidA}, record.Machine{ProviderID: "metal://rack-1/17", SystemUUID: uuidB}, false},
		"not when nothing is known of both":                           {record.Machine{SystemUUID: uuidA}, record.Machine{MachineID: idA}, false},
		"not by an empty identifier":                                  {record.Machine{}, record.Machine{}, false},
		"not by a UUID of zeros":                                      {record.Machine{SystemUUID: "00000000-0000-0000-0000-000000000000"}, record.Machine{SystemUUID: "00000000-0000-0000-0000-000000000000"}, false},
		"not by the UUID that a vendor ships on every board":          {record.Machine{SystemUUID: "03000200-0400-0500-0006-000700080009"}, record.Machine{SystemUUID: "03000200-0400-0500-0006-000700080009"}, false},
		"by one while a placeholder differs":                          {record.Machine{SystemUUID: "03000200-0400-0500-0006-000700080009", MachineID: idA}, record.Machine{SystemUUID: uuidA, MachineID: idA}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, c.a.Agrees(c.b))
			assert.Equal(t, c.want, c.b.Agrees(c.a))
		})
	}
}

// recordOf returns a record of the machine; one of a version is marked as deleted where gone says so.
func recordOf(node string, version record.Version, gone bool, followed string) record.Record {
	r := record.New(node, record.Object{UID: "U", Version: version}, map[string]string{"a": "1"})
	r.Machine, r.Followed = record.Machine{SystemUUID: uuidA}, followed
	if gone {
		r.DeletedAt = time.Unix(1, 0)
	}
	return r
}

// claimsSince returns the record of a Node that exists, and has claimed machine A since a version.
func claimsSince(version record.Version) record.Record {
	r := recordOf("liar", 9, false, "")
	r.MachineSince = version
	return r
}

func TestTheTaintsOfAMachineThatMayBeOneOfSeveral(t *testing.T) {
	const tenant, busy = "tenant:NoExecute", "busy:NoSchedule"
	tainted := func(node string, version record.Version, gone bool, followed string, taints map[string]string) record.Record {
		r := record.New(node, record.Object{UID: "U", Version: version}, taints)
		r.Machine, r.Followed = record.Machine{SystemUUID: uuidA}, followed
		if gone {
			r.DeletedAt = time.Unix(1, 0)
		}
		return r
	}
	o := tainted("other", 3, true, "", map[string]string{tenant: "blue"})
	o.Machine.SystemUUID = uuidB
	isolated := tainted("isolated", 3, true, "", map[string]string{tenant: "blue"})
	isolated.Quarantined = &o
	removed := tainted("removed", 3, true, "", nil)
	removed.Entries = []record.Entry{{Key: tenant, Removed: true, Version: 3}}
	for name, c := range map[string]struct {
		records []record.Record
		want    map[string]string
		names   []string
	}{
		"are those of each that is deleted": {
			[]record.Record{tainted("a", 3, true, "", map[string]string{tenant: "blue", "disk": "fast"}), tainted("b", 2, true, "", map[string]string{busy: ""})},
			map[string]string{tenant: "blue", busy: ""}, []string{"a", "b"},
		},
		"have the newest value":                                         {[]record.Record{tainted("a", 3, true, "", map[string]string{tenant: "blue"}), tainted("b", 2, true, "", map[string]string{tenant: "red"})}, map[string]string{tenant: "blue"}, []string{"a", "b"}},
		"are not those of one that lives":                               {[]record.Record{tainted("a", 3, false, "", map[string]string{tenant: "blue"})}, nil, nil},
		"are those of one that another Node which lives has followed":   {[]record.Record{tainted("a", 3, true, "", map[string]string{tenant: "blue"}), tainted("b", 5, false, "a", nil)}, map[string]string{tenant: "blue"}, []string{"a"}},
		"are not those from before the last of the names":               {[]record.Record{tainted("a", 3, true, "", map[string]string{tenant: "blue"}), tainted("b", 5, true, "a", map[string]string{busy: ""})}, map[string]string{busy: ""}, []string{"b"}},
		"are not those of another machine, of a quarantine, or removed": {[]record.Record{o, isolated, removed}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, names := record.TaintsOnlyOf("new", record.Machine{SystemUUID: uuidA}, c.records)
			assert.Equal(t, c.names, names)
			if len(c.want) == 0 {
				assert.Empty(t, r.Entries)
				return
			}
			assert.Equal(t, c.want, r.Items())
			assert.Empty(t, r.Followed)
			assert.Empty(t, r.Seen)
			for _, e := range r.Entries {
				assert.True(t, e.NotShown)
				assert.LessOrEqual(t, e.Version, r.Floor, "as lost with an older object")
			}
		})
	}
}

func TestTheRecordThatAMachineFollows(t *testing.T) {
	o := recordOf("other", 3, true, "")
	o.Machine.SystemUUID = uuidB
	isolated := recordOf("old", 3, true, "")
	isolated.Quarantined = &o
	for name, c := range map[string]struct {
		records []record.Record
		follows string
		several []string
	}{
		"is the only one of a Node that is deleted":                                {[]record.Record{o, recordOf("old", 3, true, "")}, "old", nil},
		"is none where no machine agrees":                                          {[]record.Record{o}, "", nil},
		"is none where the Node exists":                                            {[]record.Record{recordOf("old", 3, false, "")}, "", []string{"old"}},
		"is none of two":                                                           {[]record.Record{recordOf("old", 3, true, ""), recordOf("older", 2, true, "")}, "", []string{"old", "older"}},
		"is none of one that is deleted and one that exists":                       {[]record.Record{recordOf("old", 3, true, ""), recordOf("live", 2, false, "")}, "", []string{"live", "old"}},
		"is that of a deleted Node, whatever a Node that exists claims since then": {[]record.Record{recordOf("old", 3, true, ""), claimsSince(5)}, "old", nil},
		"is none where a Node that exists claimed the machine before":              {[]record.Record{recordOf("old", 3, true, ""), claimsSince(2)}, "", []string{"liar", "old"}},
		"is none of two, whatever a Node that exists claims since then":            {[]record.Record{recordOf("old", 3, true, ""), recordOf("older", 2, true, ""), claimsSince(5)}, "", []string{"liar", "old", "older"}},
		"is none where a Node of another cluster claims the machine":               {[]record.Record{recordOf("old", 3, true, ""), func() record.Record { r := claimsSince(5); r.Cluster = "there"; return r }()}, "", []string{"liar", "old"}},
		"is none where the Node that claims the machine is deleted, too":           {[]record.Record{recordOf("old", 3, true, ""), func() record.Record { r := claimsSince(5); r.DeletedAt = time.Unix(1, 0); return r }()}, "", []string{"liar", "old"}},
		"is never the Node's own":                                                  {[]record.Record{recordOf("new", 3, true, "")}, "", nil},
		"is none that waits for an operator":                                       {[]record.Record{isolated}, "", []string{"old"}},
		"is the last name of a machine that had three":                             {[]record.Record{recordOf("first", 3, true, ""), recordOf("second", 5, true, "first")}, "second", nil},
		"is not one that a Node which exists has followed":                         {[]record.Record{recordOf("first", 3, true, ""), recordOf("second", 5, false, "first")}, "", []string{"second"}},
		"is none where the first name was used again since":                        {[]record.Record{recordOf("first", 9, true, ""), recordOf("second", 5, true, "first")}, "", []string{"first", "second"}},
		"is not one of another cluster that was followed in this one": {[]record.Record{recordOf("first", 9_000_000, true, ""), func() record.Record {
			r := recordOf("second", 5, true, "first")
			r.Cluster = "here"
			return r
		}()}, "second", nil},
		"is not one whose follower has moved to another machine": {[]record.Record{recordOf("first", 3, true, ""), func() record.Record {
			r := recordOf("second", 5, false, "first")
			r.Machine.SystemUUID = uuidB
			return r
		}()}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			old, found, several := record.Predecessor("new", record.Machine{SystemUUID: uuidA}, c.records)
			assert.Equal(t, c.follows != "", found)
			assert.Equal(t, c.follows, old.Node)
			assert.Equal(t, c.several, several)
		})
	}
}

func TestARecordThatFollowsAnotherOneKeepsBackWhatWaits(t *testing.T) {
	old := record.New("old", record.Object{UID: "U", Version: 7}, map[string]string{"free": "1", "held": "2"})
	old.Entries = append(old.Entries, record.Entry{Key: "removed", Removed: true, Version: 7})
	r := record.Follow(old, "new", record.Machine{SystemUUID: uuidA}, func(key string) bool { return key == "held" })
	o := record.Observation{UID: "V", Version: 20}
	merged := record.Merge(r, o)
	assert.Equal(t, map[string]string{"free": "1"}, record.Missing(merged, o), "what waits is not missing")
	assert.False(t, merged.WholeRecordQuarantined())
	stored, err := record.Encode(merged)
	require.NoError(t, err)
	read, err := record.Decode(stored)
	require.NoError(t, err)
	assert.Equal(t, "old", read.Followed)

	accepted := record.AcceptOld(merged, record.Object{UID: "V", Version: 20})
	assert.Equal(t, map[string]string{"free": "1", "held": "2"}, record.Missing(accepted, o))
	assert.Equal(t, map[string]string{"free": "1"}, record.Missing(record.AcceptNew(merged), o))
	assert.Equal(t, merged.Entries, record.AcceptNew(merged).Entries, "what waited has never been given")

	merged = record.Merge(merged, record.Observation{UID: "V", Version: 21, Items: map[string]record.Item{"held": {Value: "own", Owner: record.Client}}})
	assert.Equal(t, "own", record.AcceptOld(merged, record.Object{}).Items()["held"], "what was set since comes first")

	reread := record.Follow(record.Follow(old, "new", record.Machine{}, func(key string) bool { return key == "held" }), "newer", record.Machine{}, func(key string) bool { return key == "held" })
	assert.Equal(t, map[string]string{"held": "2"}, reread.Quarantined.Items(), "what waits goes on to the next name")
}

// A webhook that did not know the record of the name took the machine for another Node's, whose values were recorded later.
func TestANodesOwnRecordCorrectsWhatIsFromAnotherNodes(t *testing.T) {
	current := record.Forget(record.New("n", record.Object{UID: "U1", Version: 5}, map[string]string{label: "own", taint: "own"}), []string{taint})
	o := from(given(given(shows("U2", 20), label, "other", 0), taint, "other", 0), 9)
	for name, tt := range map[string]struct {
		from, follows string
		corrects      bool
	}{
		"from a record that this one does not follow": {"old", "", true},
		"from another record than it follows":         {"old", "older", true},
		"from the record that it follows":             {"old", "old", false},
		"from itself":                                 {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o, r := o, current
			o.Stamp.Followed, r.Followed = tt.from, tt.follows
			correct, remove := record.Stale(record.Merge(r, o), o)
			assert.Equal(t, tt.corrects, correct[label] == "own" && slices.Contains(remove, taint))
		})
	}
}
