package view

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/impact"
)

func TestTheSumOfWhatIsKeptNamesWhoSetWhatNoOperatorDid(t *testing.T) {
	item := func(key string, unexpected bool, managers ...string) impact.JudgedItem {
		return impact.JudgedItem{Keys: []string{key}, Unexpected: unexpected, Managers: managers}
	}
	assert.Equal(t, "nothing", keptText(nil))
	assert.Equal(t, "1 key", keptText([]impact.JudgedItem{item("a", false, "kubectl")}))
	assert.Equal(t, "2 keys; check 1 of them, which only agent set", keptText([]impact.JudgedItem{item("a", true, "agent"), item("a", false, "kubectl"), item("b", false)}))
	all := []impact.JudgedItem{}
	for i := range 7 {
		all = append(all, item(fmt.Sprint(i), true, fmt.Sprintf("agent-%d", i)))
	}
	assert.Equal(t, "7 keys; check 7 of them, which only agent-0, agent-1, agent-2, agent-3, agent-4 and 2 more set", keptText(all))
}

func TestWhatNoOperatorSetIsListedWithWhatToDo(t *testing.T) {
	assert.Equal(t, "labels.keep has *", keptReason(impact.JudgedItem{Reason: "labels.keep has *", Managers: []string{"kubectl"}}))
	assert.Equal(t, "kept, though only vendor-agent set it: add it to ignoreManagers, or keep it",
		keptReason(impact.JudgedItem{Reason: "labels.keep has *", Unexpected: true, Managers: []string{"vendor-agent"}}))
	assert.Equal(t, "kept, though only other-agent and vendor-agent set it: add them to ignoreManagers, or keep it",
		keptReason(impact.JudgedItem{Reason: "labels.keep has *", Unexpected: true, Managers: []string{"other-agent", "vendor-agent"}}))
}
