package view

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestImportOf(t *testing.T) {
	inFile := set{"a": "1", "t:NoSchedule": "x"}
	over, apply, both := ImportOptions{Overwrite: true}, ImportOptions{Apply: true}, ImportOptions{Overwrite: true, Apply: true}
	tests := map[string]struct {
		file    *store.Record
		here    Sight
		options ImportOptions
		want    ImportAction
		gets    []string
		writes  set // what is remembered in the record that is written; nil: none is
	}{
		"nothing is here":                                          {remembered(inFile), sight(nil, nil), ImportOptions{}, ImportCreate, nil, inFile},
		"the same is here":                                         {remembered(inFile), sight(nil, remembered(inFile, goneSince(time.Hour))), ImportOptions{}, ImportSame, nil, nil},
		"the same is here, told in another way":                    {remembered(set{"a": "1"}, later), sight(nil, remembered(set{"a": "1", "l": "1"})), over, ImportSame, nil, nil},
		"something else is here":                                   {remembered(inFile), sight(nil, remembered(set{"a": "2"})), apply, ImportNewer, nil, nil},
		"something else is withheld here":                          {remembered(inFile), sight(nil, remembered(inFile, withholding(set{"w": ""}))), ImportOptions{}, ImportNewer, nil, nil},
		"another machine's is here":                                {remembered(inFile, ofMachine("aa")), sight(nil, remembered(inFile, ofMachine("bb"))), ImportOptions{}, ImportNewer, nil, nil},
		"something else is here and may be overwritten":            {remembered(inFile), sight(nil, remembered(set{"a": "2"})), over, ImportChange, nil, inFile},
		"what is here cannot be read":                              {remembered(inFile), Sight{Name: "n1", Unreadable: errors.New("?")}, both, ImportUnreadable, nil, nil},
		"somebody has to decide here":                              {remembered(inFile), sight(nil, remembered(inFile, quarantining(set{"b": ""}))), both, ImportUndecided, nil, nil},
		"somebody has to decide, here as there":                    {remembered(inFile, quarantining(set{"b": ""})), sight(nil, remembered(inFile, quarantining(set{"b": ""}))), both, ImportSame, nil, nil},
		"somebody has to decide there":                             {remembered(inFile, quarantining(set{"b": ""})), sight(nil, nil), ImportOptions{}, ImportCreate, nil, inFile},
		"somebody has to decide there, of a live Node":             {remembered(inFile, quarantining(set{"b": ""})), sight(live(nil), nil), both, ImportUndecided, nil, nil},
		"somebody has decided there":                               {remembered(inFile, quarantining(set{"b": ""}), accepting(store.OldMachine)), sight(nil, nil), ImportOptions{}, ImportCreate, nil, set{"b": ""}},
		"the Node is live and lacks something":                     {remembered(inFile), sight(live(set{"a": "1"}), nil), over, ImportLive, []string{"t:NoSchedule"}, nil},
		"it is live and gets what it lacks":                        {remembered(inFile), sight(live(nil), remembered(nil)), apply, ImportGive, []string{"a", "t:NoSchedule"}, nil},
		"it is live and lacks something that its record still has": {remembered(inFile), sight(live(set{"t:NoSchedule": "x"}), remembered(inFile)), apply, ImportGive, []string{"a"}, nil},
		"it is live and has another value than its record":         {remembered(inFile), sight(live(set{"a": "2", "t:NoSchedule": "x"}), remembered(inFile)), apply, ImportGive, nil, set{"a": "2", "t:NoSchedule": "x"}},
		"it and its record have it all":                            {remembered(inFile), sight(live(inFile), remembered(inFile)), both, ImportSame, nil, nil},
		"the same was refused, or lost to its value":               {remembered(inFile, withholding(set{"w": "1", "b": "2"})), sight(live(set{"a": "1", "t:NoSchedule": "x", "b": "1"}), remembered(inFile, withholding(set{"w": "1", "b": "2"}))), both, ImportSame, nil, nil},
		"the same is withheld from it":                             {remembered(inFile, withholding(set{isolation: "x"})), sight(live(inFile), remembered(inFile, withholding(set{isolation: "x"}))), both, ImportSame, nil, nil},
		"it is live and has it all":                                {remembered(inFile), sight(live(set{"a": "1", "b": "", "t:NoSchedule": "x"}), nil), both, ImportSame, nil, nil},
		"it is live and has another value":                         {remembered(inFile), sight(live(set{"a": "2"}), remembered(set{"a": "2"})), apply, ImportGive, []string{"t:NoSchedule"}, set{"a": "2"}},
		"it is live and its value may be overwritten":              {remembered(inFile), sight(live(set{"a": "2"}), remembered(set{"a": "2"})), both, ImportGive, []string{"a", "t:NoSchedule"}, nil},
		"it is live, and the rest is withheld":                     {remembered(set{"a": "1", isolation: "x"}), sight(live(set{"a": "1"}), remembered(set{"a": "1"})), apply, ImportGive, nil, set{"a": "1", isolation: "x"}},
		"it is live, and what the policy withholds is no conflict": {remembered(set{"a": "1", isolation: "x"}), sight(live(set{"a": "1"}), remembered(set{"a": "1"})), both, ImportGive, nil, set{"a": "1", isolation: "x"}},
		"it is live, and that is withheld here already":            {remembered(set{"a": "1", isolation: "x"}), sight(live(set{"a": "1"}), remembered(set{"a": "1"}, withholding(set{isolation: "y"}))), apply, ImportSame, nil, nil},
		"it is live without a record, and some withheld":           {remembered(set{isolation: "x"}), sight(live(set{"b": "1"}), nil), apply, ImportGive, nil, set{"b": "1", isolation: "x"}},
		"it is live and its former object's gift pending":          {remembered(inFile), sight(live(nil), remembered(set{"p": ""}, ofObject("0"))), apply, ImportGive, []string{"a", "t:NoSchedule"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ImportOf(*tt.file, tt.here, world(policy.Default()), tt.options)
			assert.Equal(t, tt.want, got.Action)
			assert.Equal(t, tt.gets, got.Gets)
			if tt.writes == nil {
				assert.Nil(t, got.Write)
				return
			}
			require.NotNil(t, got.Write)
			assert.Equal(t, tt.writes, got.Write.Remembered())
			if tt.here.Node == nil {
				assert.Empty(t, got.Write.UID, "it is of no object here")
				assert.Empty(t, got.Write.NodeResourceVersion)
				assert.True(t, got.Write.DeletedAt.Time.Equal(now), "it is kept from now on")
			} else {
				assert.Equal(t, tt.here.Node.UID, got.Write.UID)
			}
		})
	}
}

func TestARecordHereIsOlderIfTheFilesHistorySaysThatItHeldTheSame(t *testing.T) {
	cause := func(string, store.Values) store.Cause {
		return store.Cause{Actor: "kubectl", Time: metav1.NewTime(now)}
	}
	first := remembered(set{"a": "1"})
	second := remembered(set{"a": "2", "t:NoSchedule": ""}).Following(*first, cause)
	third := remembered(set{"b": ""}).Following(second, cause)
	fork := remembered(set{"a": "fork"}).Following(*first, cause)
	noHistory := remembered(set{"a": "2", "t:NoSchedule": ""})
	for name, tt := range map[string]struct {
		file, here store.Record
		want       ImportAction
	}{
		"one change behind":                              {second, *first, ImportChange},
		"two changes behind":                             {third, *first, ImportChange},
		"the second behind the third":                    {third, second, ImportChange},
		"one change ahead":                               {*first, second, ImportNewer},
		"changed in another way":                         {third, fork, ImportNewer},
		"the same as the file's once, by another way":    {third, *noHistory, ImportNewer},
		"the history is that of the file and a bit more": {second, third, ImportNewer},
	} {
		t.Run(name, func(t *testing.T) {
			got := ImportOf(tt.file, sight(nil, &tt.here), world(policy.Default()), ImportOptions{})
			assert.Equal(t, tt.want, got.Action)
			if tt.want == ImportChange {
				assert.Equal(t, tt.file.History, got.Write.History)
				return
			}
			over := ImportOf(tt.file, sight(nil, &tt.here), world(policy.Default()), ImportOptions{Overwrite: true}).Write
			assert.Len(t, over.History, len(tt.here.History)+1, "the history here goes on")
			assert.Equal(t, ImportActor, over.History[len(over.History)-1].Actor)
		})
	}
}

const isolation = "node-restriction.kubernetes.io/tier"

func ofMachine(uuid string) func(*store.Record) {
	return func(r *store.Record) { r.Machine.SystemUUID = uuid }
}

func ofObject(uid string) func(*store.Record) {
	return func(r *store.Record) { r.UID, r.NodeResourceVersion = types.UID(uid), "1" }
}

func accepting(side store.Side) func(*store.Record) {
	return func(r *store.Record) { r.Accepted = side }
}

func TestNothingOfAnObjectOfAnotherClusterIsTakenOver(t *testing.T) {
	ours := []corev1.Taint{{Key: "r", Effect: "NoSchedule"}}
	file := remembered(set{"a": "1"}, goneSince(1000*time.Hour), quarantining(set{"b": ""}), ofMachine("aa"), func(r *store.Record) {
		r.RuleTaints, r.RuleClaims, r.FormerTaints, r.Early = ours, ours, ours, true
	})
	got := ImportOf(*file, sight(nil, nil), world(policy.Default()), ImportOptions{}).Write
	require.NotNil(t, got)
	assert.Empty(t, got.UID)
	assert.Empty(t, got.NodeResourceVersion)
	assert.Empty(t, got.RuleTaints)
	assert.Empty(t, got.RuleClaims)
	assert.Empty(t, got.FormerTaints)
	assert.False(t, got.Early)
	assert.Empty(t, got.Quarantined.UID)
	assert.Equal(t, "aa", got.Machine.SystemUUID, "the machine may be the same")
	assert.Equal(t, "1", string(file.UID), "the file's own record is left as it is")
	assert.NotEmpty(t, file.RuleTaints)
}

func TestATaintThatIsReplacedIsKnownAsAFormerOne(t *testing.T) {
	here := remembered(set{"t:NoSchedule": "x"})
	got := ImportOf(*remembered(set{"a": "1"}), sight(nil, here), world(policy.Default()), ImportOptions{Overwrite: true}).Write
	require.NotNil(t, got)
	assert.Equal(t, []corev1.Taint{{Key: "t", Value: "x", Effect: "NoSchedule"}}, got.FormerTaints, "a registration may still restore it from the record as it was")
}

func TestUnderQuarantineAnotherMachineGetsNothing(t *testing.T) {
	p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nmachine: {onMismatch: quarantine}\n"), policy.DefaultGate)
	require.NoError(t, err)
	node := live(nil, func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = "bb" })
	got := ImportOf(*remembered(set{"a": "1"}, ofMachine("aa")), sight(node, nil), world(p), ImportOptions{Apply: true, Overwrite: true})
	assert.Equal(t, ImportUndecided, got.Action)
	assert.Nil(t, got.Write)
}
