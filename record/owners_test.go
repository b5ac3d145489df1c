package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

const (
	argo      record.Owners = "Apply argocd-controller"
	flux      record.Owners = "Apply kustomize-controller"
	twoOwners record.Owners = argo + "\n" + flux
)

// ownedBy returns the observation in which these managers own all labels.
func ownedBy(o record.Observation, by record.Owners) record.Observation {
	for key, item := range o.Items {
		if !record.IsTaint(key) {
			item.Owners = by
			o.Items[key] = item
		}
	}
	return o
}

// restored returns the observation of a label that nodekeep gave from an entry of version 5, with its owners. The Node shows both unless a client changed them.
func restored(o record.Observation) record.Observation {
	if _, shown := o.Items[label]; !shown {
		o = ownedBy(shows(o.UID, o.Version, label, "a"), argo)
	}
	o.Stamp.Given = map[string]record.Given{label: {Value: "a", From: 5, Owners: argo}}
	return o
}

func TestOwnersAreTheManagersThatTheAPIServerTakes(t *testing.T) {
	all := []record.Manager{
		{Name: "kubectl label", Operation: "Update"}, {Name: "argocd-controller", Operation: "Apply"}, {Name: "x", Operation: "Update", Subresource: "status"},
	}
	owners := record.OwnersOf(append(all, all[0])...)
	assert.Equal(t, record.Owners("Apply argocd-controller\nUpdate kubectl label\nUpdate/status x"), owners)
	assert.ElementsMatch(t, all, owners.Managers())
	assert.Equal(t, owners, record.OwnersOf(owners.Managers()...))
	assert.Empty(t, record.OwnersOf())
	assert.Empty(t, record.Owners("").Managers())
	for _, m := range []record.Manager{
		{Operation: "Apply"}, {Name: "x"}, {Name: "x", Operation: "Delete"}, {Name: "x\ny", Operation: "Apply"}, {Name: strings.Repeat("x", 129), Operation: "Apply"},
		{Name: "x", Operation: "Apply", Subresource: "a b"},
	} {
		assert.Empty(t, record.OwnersOf(m), "%q", m)
	}
	plural := make([]record.Manager, 20)
	for i := range plural {
		plural[i] = record.Manager{Name: fmt.Sprint(i), Operation: "Update"}
	}
	assert.Len(t, record.OwnersOf(plural...).Managers(), 10)
}

func TestWhoOwnsAValueIsRecordedWithIt(t *testing.T) {
	first := ownedBy(shows("U1", 5, label, "a"), argo)
	for name, tt := range map[string]struct {
		observations []record.Observation
		value        string // empty: removed
		version      record.Version
		owners       record.Owners
	}{
		"who set it":                  {[]record.Observation{first}, "a", 5, argo},
		"who set it to another value": {[]record.Observation{first, ownedBy(shows("U1", 6, label, "b"), flux)}, "b", 6, flux},
		"who set it to another value, which nobody shows":           {[]record.Observation{first, shows("U1", 6, label, "b")}, "b", 6, ""},
		"who has applied the same":                                  {[]record.Observation{first, ownedBy(shows("U1", 6, label, "a"), twoOwners)}, "a", 6, twoOwners},
		"who is left of two":                                        {[]record.Observation{ownedBy(shows("U1", 5, label, "a"), twoOwners), ownedBy(shows("U1", 6, label, "a"), flux)}, "a", 6, flux},
		"an older state says nothing":                               {[]record.Observation{first, ownedBy(shows("U1", 4, label, "a"), flux)}, "a", 5, argo},
		"nor does it of what nobody showed":                         {[]record.Observation{shows("U1", 5, label, "a"), ownedBy(shows("U1", 4, label, "a"), flux)}, "a", 5, ""},
		"owners that the API server has lost stay known":            {[]record.Observation{first, shows("U1", 6, label, "a")}, "a", 6, argo},
		"a removal has none":                                        {[]record.Observation{first, shows("U1", 6)}, "", 6, ""},
		"what is restored with them is nodekeep's":                  {[]record.Observation{first, restored(shows("U2", 9))}, "a", 5, argo},
		"and without them":                                          {[]record.Observation{first, given(shows("U2", 9), label, "a", 0)}, "a", 5, argo},
		"what another client applies as well is that client's":      {[]record.Observation{first, restored(ownedBy(shows("U2", 9, label, "a"), twoOwners))}, "a", 9, twoOwners},
		"what is restored from a stale record is not recorded":      {[]record.Observation{first, ownedBy(shows("U1", 6, label, "b"), flux), restored(shows("U2", 9))}, "b", 6, flux},
		"what is restored is learnt with its owners":                {[]record.Observation{restored(shows("U2", 9))}, "a", 5, argo},
		"the owner changes what is restored":                        {[]record.Observation{first, restored(ownedBy(shows("U2", 9, label, "b"), argo))}, "b", 9, argo},
		"and drops it":                                              {[]record.Observation{first, listed(shows("U2", 9), label, "a", 0)}, "", 9, ""},
		"the owner changes it and sets it back":                     {[]record.Observation{first, restored(ownedBy(shows("U2", 9, label, "b"), argo)), restored(shows("U2", 11))}, "a", 11, argo},
		"the owner changes it and sets it back, observed backwards": {[]record.Observation{first, restored(shows("U2", 11)), restored(ownedBy(shows("U2", 9, label, "b"), argo))}, "a", 9, argo},
	} {
		t.Run(name, func(t *testing.T) {
			r := merged(tt.observations...)
			e, _ := r.Entry(label)
			assert.Equal(t, record.Entry{Key: label, Value: tt.value, Removed: tt.value == "", Version: tt.version, Owners: tt.owners, NotShown: e.NotShown}, e)
			data, err := record.Encode(r)
			require.NoError(t, err)
			returned, err := record.Decode(data)
			require.NoError(t, err)
			assert.Equal(t, r.Entries, returned.Entries)
		})
	}
	correct, _ := record.Stale(merged(first, ownedBy(shows("U1", 6, label, "b"), flux)), restored(shows("U2", 9)))
	assert.Equal(t, map[string]string{label: "b"}, correct, "the owner on the Node is no client's decision")
	r := merged(first)
	assert.True(t, record.WorthWriting(r, merged(first, ownedBy(shows("U1", 6, label, "a"), twoOwners)), ownedBy(shows("U1", 6, label, "a"), twoOwners), true), "worth a write")
	assert.False(t, record.WorthWriting(r, merged(first, ownedBy(shows("U1", 6, label, "a"), argo)), ownedBy(shows("U1", 6, label, "a"), argo), true))
}

// Clients choose the names of managers, and a kubelet can write any into managedFields.
func TestARecordHoldsFewOwners(t *testing.T) {
	o := record.Observation{UID: "U1", Version: 5, Items: map[string]record.Item{}}
	for i := range 1000 {
		o.Items[fmt.Sprintf("example.com/label-%04d", i)] = record.Item{
			Value: "1", Owner: record.Client, Owners: record.OwnersOf(record.Manager{Name: fmt.Sprintf("%s-%d", strings.Repeat("x", 100), i/10), Operation: "Update"}),
		}
	}
	r := merged(o)
	known, managers, size := 0, map[record.Owners]bool{}, 0
	for _, e := range r.Entries {
		if e.Owners != "" {
			known, size = known+1, size+len(e.Key)+len(e.Owners)
			managers[e.Owners] = true
		}
	}
	assert.Len(t, r.Entries, 1000, "no label is lost by it")
	assert.LessOrEqual(t, len(managers), record.MaxManagers)
	assert.LessOrEqual(t, size, record.MaxOwnersBytes)
	assert.Greater(t, known, 200, "the first keys keep theirs")
	data, err := record.Encode(r)
	require.NoError(t, err)
	returned, err := record.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, r.Entries, returned.Entries)
	for _, e := range r.WithoutOwners().Entries {
		assert.Empty(t, e.Owners)
	}
	assert.NotEmpty(t, r.Entries[0].Owners, "of a copy")
}

func TestOwnersThatNodekeepCannotHaveWrittenAreNotRead(t *testing.T) {
	r, err := record.Decode([]byte(`{"version":1,"node":"n","uid":"u","nodeResourceVersion":"9","labels":{"a":"1"},"removed":{"r":"7"},"taints":[{"key":"t","effect":"NoSchedule"}],
		"owners":[{"manager":"x","operation":"Apply","keys":["a","r","t:NoSchedule","unknown"]},{"manager":"y","operation":"Delete","keys":["a"]}]}`))
	require.NoError(t, err)
	require.Len(t, r.Entries, 3)
	for _, e := range r.Entries {
		assert.Equal(t, map[string]record.Owners{"a": "Apply x"}[e.Key], e.Owners, e.Key)
	}
}
