package doctor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/impact"
)

func TestWhatIsNotKeptIsANoteByReasonAndNoFinding(t *testing.T) {
	seen := healthy(t)
	assert.Equal(t, "every label and taint of the Nodes is kept", resultOf(t, RunChecks(seen, nil), checkNotKept).Title)

	item := func(key, reason string) impact.JudgedItem {
		return impact.JudgedItem{Item: key, Keys: []string{key}, Reason: reason}
	}
	items := []impact.JudgedItem{item("kubernetes.io/arch", "kubelet"), item("kubernetes.io/os", "kubelet")}
	for i := range 12 {
		items = append(items, item(fmt.Sprintf("example.com/%d", i), "labels.ignore: example.com/*"))
	}
	byRule := item("tier", "rule gpu sets it")
	byRule.ByRules = true
	items = append(items, byRule)
	seen.Nodes.Value.NotKept = Found(NotKeptOf(items))
	assert.Equal(t, []string{
		"note: not kept (kubelet): kubernetes.io/arch, kubernetes.io/os",
		"note: not kept (labels.ignore: example.com/*): example.com/0, example.com/1, example.com/2, example.com/3, example.com/4, example.com/5, example.com/6, example.com/7, example.com/8, example.com/9 and 2 more items",
	}, notes(t, seen))
}

func TestWithoutTheRecordsOnlyWhatIsKeptIsNotKnown(t *testing.T) {
	seen := healthy(t)
	seen.Nodes.Value.NotKept = NotKnown[[]NotKept](Unknown{Reason: "jane may not list configmaps"})
	report := RunChecks(seen, nil)
	assert.Equal(t, 1, report.Unknown)
	assert.Equal(t, Result{Check: checkNotKept, Status: Status(SeverityUnknown), Title: "jane may not list configmaps"}, withoutFindings(resultOf(t, report, checkNotKept)))
}

func withoutFindings(r Result) Result {
	r.Findings = nil
	return r
}
