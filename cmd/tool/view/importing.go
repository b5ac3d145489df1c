package view

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Importing counts what becomes of the records of a file.
type Importing struct {
	counts map[ImportAction]int
	nodes  map[ImportAction][]string // the first of them
}

// named is how many Nodes are named for each action.
const named = 3

// Add counts one.
func (i *Importing) Add(node string, action ImportAction) {
	if i.counts == nil {
		i.counts, i.nodes = map[ImportAction]int{}, map[ImportAction][]string{}
	}
	i.counts[action]++
	if len(i.nodes[action]) < named {
		i.nodes[action] = append(i.nodes[action], node)
	}
}

// importMeanings says what each action is, in their order; left says that the record is left alone.
func importMeanings() []struct {
	action  ImportAction
	meaning string
	left    bool
} {
	return []struct {
		action  ImportAction
		meaning string
		left    bool
	}{
		{ImportCreate, "nothing is remembered of the Node here, and it is not live", false},
		{ImportChange, "an older record is here, or one that may be overwritten, and is replaced", false},
		{ImportGive, "the Node is live, and gets what it lacks", false},
		{ImportSame, "nothing to do", false},
		{ImportNewer, "another record is here, and stays; --overwrite replaces it", true},
		{ImportLive, "the Node is live, and stays as it is; --apply gives it what it lacks", true},
		{ImportUndecided, "nobody has decided yet between two machines of the name; nodekeep accept does", true},
		{ImportUnreadable, "the record here cannot be read; nodekeep forget removes it", true},
		{ImportRefused, "the API server would not have on the Node what it was to get", true},
	}
}

// Document is the plan, in short.
func (i *Importing) Document(time.Time) Document {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column("Action"), column("Records"), column("What it means"), column("Nodes")}}
	for _, m := range importMeanings() {
		n := i.counts[m.action]
		if n == 0 {
			continue
		}
		nodes := strings.Join(i.nodes[m.action], ", ")
		if more := n - len(i.nodes[m.action]); more > 0 {
			nodes += fmt.Sprintf(" and %d more", more)
		}
		table.Rows = append(table.Rows, row(string(m.action), n, m.meaning, nodes))
	}
	return Document{Tables: []*metav1.Table{table}}
}

// Work is how many records are to be imported.
func (i *Importing) Work() int {
	return i.counts[ImportCreate] + i.counts[ImportChange] + i.counts[ImportGive]
}

// Of is how many records have come to an action.
func (i *Importing) Of(action ImportAction) int { return i.counts[action] }

// All is how many records were counted.
func (i *Importing) All() (all int) {
	for _, n := range i.counts {
		all += n
	}
	return all
}

// LeftAlone says, with the first of what the API server said where it refused, which records of the file are not remembered here as it has them; nil where all are.
func (i *Importing) LeftAlone(refusals ...string) error {
	var left []string
	all := 0
	for _, m := range importMeanings() {
		if n := i.counts[m.action]; m.left && n > 0 {
			all += n
			left = append(left, fmt.Sprintf("  %d %s: %s", n, m.action, m.meaning))
		}
	}
	if all == 0 {
		return nil
	}
	left = append(left, refusals[:min(named, len(refusals))]...)
	return fmt.Errorf("%s left alone:\n%s", Counted(all, "record"), strings.Join(left, "\n"))
}

// Done says what was imported.
func (i *Importing) Done() string {
	return fmt.Sprintf("%s imported (%d created, %d replaced, %d given to live Nodes); %d the same already", Counted(i.Work(), "record"),
		i.counts[ImportCreate], i.counts[ImportChange], i.counts[ImportGive], i.counts[ImportSame])
}

// ImportList is what becomes of each record.
type ImportList struct {
	Items []Import `json:"items"`
}

// Document has a line for each record.
func (l ImportList) Document(time.Time) Document {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{column("Name"), column("Action"), column("Labels"), column("Taints"), column("Gets")}}
	for _, i := range l.Items {
		table.Rows = append(table.Rows, row(i.Node, string(i.Action), i.Labels, i.Taints, orNone(strings.Join(i.Gets, ","))))
	}
	return Document{Tables: []*metav1.Table{table}}
}
