package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnImportIsTheWholeFileUnlessSomethingIsLeftAlone(t *testing.T) {
	var i Importing
	for _, node := range []string{"a", "b", "c", "d"} {
		i.Add(node, ImportCreate)
	}
	i.Add("e", ImportGive)
	i.Add("f", ImportSame)
	require.NoError(t, i.LeftAlone())
	assert.Equal(t, 5, i.Work())
	assert.Equal(t, 6, i.All())
	assert.Equal(t, "5 records imported (4 created, 0 replaced, 1 given to live Nodes); 1 the same already", i.Done())
	table := i.Document(now).Tables[0]
	require.Len(t, table.Rows, 3)
	assert.Equal(t, "a, b, c and 1 more", table.Rows[0].Cells[3])

	for _, action := range []ImportAction{ImportNewer, ImportLive, ImportUndecided, ImportUnreadable, ImportRefused} {
		i.Add("g", action)
	}
	require.ErrorContains(t, i.LeftAlone("  one", "  two", "  three", "  four"), "5 records left alone:\n  1 newer here")
	assert.NotContains(t, i.LeftAlone("  one", "  two", "  three", "  four").Error(), "four", "the first of the refusals")
	assert.Equal(t, 5, i.Work())
}

func TestEveryActionOfAnImportHasAMeaning(t *testing.T) {
	meant := map[ImportAction]bool{}
	for _, m := range importMeanings() {
		assert.NotEmpty(t, m.meaning)
		meant[m.action] = true
	}
	assert.Len(t, meant, 9)
}
