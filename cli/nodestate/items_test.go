package nodestate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/nodestate"
)

func TestItemsAreInTheOrderOfTheirKinds(t *testing.T) {
	items := set{"@a.io/x": "1", "k": "1", "t:NoSchedule": "", "b": "2"}
	assert.Equal(t, []string{"b", "k", "t:NoSchedule", "@a.io/x"}, nodestate.SortedItems(items))
	kinds := map[string]string{}
	for item := range items {
		kinds[item] = nodestate.KindOf(item)
	}
	assert.Equal(t, set{"@a.io/x": "annotation", "k": "label", "t:NoSchedule": "taint", "b": "label"}, kinds)
}

func TestAValueIsShownAsAllCommandsShowIt(t *testing.T) {
	empty, value, long := "", "ci", strings.Repeat("x", 8000)
	assert.Equal(t, "-", nodestate.FormatValue(nil))
	assert.Equal(t, `""`, nodestate.FormatValue(&empty), "an empty value is not none")
	assert.Equal(t, "ci", nodestate.FormatValue(&value))
	assert.Equal(t, long[:80]+"... (8000 bytes)", nodestate.FormatValue(&long), "the start of an annotation")
}
