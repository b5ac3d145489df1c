package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
	"nodekeep.dev/nodekeep/store"
)

// text has a line for each fact, each table's header and each row.
func text(d Document) string {
	var lines []string
	for _, fact := range d.Facts {
		lines = append(lines, fact.Name+": "+fact.Value)
	}
	for _, table := range d.Tables {
		if len(table.Rows) == 0 {
			continue
		}
		var names []string
		for _, column := range table.ColumnDefinitions {
			names = append(names, column.Name)
		}
		lines = append(lines, strings.Join(names, "|"))
		for _, row := range table.Rows {
			lines = append(lines, strings.TrimSuffix(strings.Join(strings.Fields(fmt.Sprintln(row.Cells...)), "|"), "\n"))
		}
	}
	return strings.Join(lines, "\n")
}

func TestAPlanShowsAllThatItIsAbout(t *testing.T) {
	inputs := statetest.Under(policy.Default())
	two := statetest.Recorded(set{"a": "2", "t:NoSchedule": "x"}, statetest.GoneSince(time.Hour), statetest.Quarantining(set{"a": "1", "b": ""}))
	two.Machine, two.Quarantined.Machine = record.Machine{SystemUUID: "new"}, record.Machine{ProviderID: "old", MachineID: "m"}
	sides := QuarantinePlanOf(store.Entry{Record: *two})
	shown, err := RecordOf(statetest.State(nil, two), "ns", statetest.Under(statetest.Load(t, "")))
	require.NoError(t, err)
	gated, _ := GatedOf(statetest.State(statetest.Live(nil, gatedFor(time.Hour)), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), inputs, CaptureStatus{})
	for name, c := range map[string]struct {
		answer Answer
		want   []string
	}{
		"to forget a whole record, the side that is set aside included": {ForgetPlan{nodestate.PlanForget(statetest.State(nil, two), nil)}, []string{
			"Gone: for 60m", "Record: would be removed as a whole", "Would be forgotten|Key|Value|State\nlabel|a|2|recorded\ntaint|t:NoSchedule|x|recorded",
			"Of the machine before|Key|Value|State\nlabel|a|1|recorded\nlabel|b|\"\"|recorded",
		}},
		"to forget an item and no other": {ForgetPlan{nodestate.PlanForget(statetest.State(statetest.Live(nil), statetest.Recorded(set{"a": "1", "b": "2"}, statetest.NotShown("b"))), []string{"b"})}, []string{
			"Node: n1\nWould be forgotten|Key|Value|State\nlabel|b|2|recorded,|not|shown|on|the|Node",
		}},
		"to decide between two machines": {sides, []string{
			"Old machine: providerID old, machineID m", "New machine: systemUUID new",
			"Recorded|Key|Old|New\nlabel|a|1|2\nlabel|b|\"\"|-\ntaint|t:NoSchedule|-|x",
		}},
		"to lift a gate": {Release{State: nodestate.State{Name: "n1"}, Gated: &gated}, []string{"Gated: for 60m", "Why: 1 item missing", "Missing|Key|Value\nlabel|a|1"}},
		"a record with two sides": {shown, []string{
			"Status: Gone, for 60m", "Record: ConfigMap node.n1 in namespace ns", "Recorded|Key|Value|State\nlabel|a|2|recorded",
			"Recorded before|Key|Value|State\nlabel|a|1|recorded",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(c.answer.Document(now))
			for _, part := range c.want {
				assert.Contains(t, got, part)
			}
		})
	}
	assert.Contains(t, sides.Question(store.OldMachine), "Give the machine")
	assert.Contains(t, sides.Question(store.NewMachine), "Forget the record of the old machine")
}

func TestAHistoryWithoutItsOldestChangesBeginsWithWhatIsKnown(t *testing.T) {
	edit := func(r record.Record, value string) record.Record {
		return history.Append(r, *statetest.Recorded(set{"a": value}), func(string, history.Values) history.Cause {
			return history.Cause{Actor: "alice", Time: metav1.NewTime(now)}
		})
	}
	r := edit(edit(*statetest.Recorded(set{"a": "1"}), "2"), "3")
	for ok := true; ok; r, ok = history.Shortened(r) { // for want of room
	}
	stamp := now.UTC().Format(time.RFC3339)
	const head = "Number|Time|By|Item|Key|From|To|Ago\n"
	dropped := "2|" + stamp + "|alice|many|1|labels|and|taints,|too|many|to|be|kept|-|-|0s\n2|-|earlier|changes|label|a|-|3|-"
	assert.Equal(t, head+dropped, text(HistoryOf(r).Document(now)), "it is not the first record")
	assert.Equal(t, head+dropped+"\n3|"+stamp+"|alice|label|a|3|4|0s", text(HistoryOf(edit(r, "4")).Document(now)))
	assert.Equal(t, head+"0|-|first|record|label|a|-|1|-", text(HistoryOf(*statetest.Recorded(set{"a": "1"})).Document(now)))
}

func TestARollbackListsItsSteps(t *testing.T) {
	name, two := "1", "2"
	rollback := Rollback{nodestate.Rollback{Steps: []nodestate.RollbackStep{
		{Kind: "label", Item: "change", Action: nodestate.Replace, From: &two, To: &name},
		{Kind: "label", Item: "ignored", Action: nodestate.LeftAlone, From: &name, Reason: "labels.ignore has ignored"},
	}}}
	assert.Equal(t, "Action|Item|Key|From|To|Why\nchange|label|change|2|1|-\nleft|alone|label|ignored|1|-|labels.ignore|has|ignored", text(rollback.Document(now)))
}
