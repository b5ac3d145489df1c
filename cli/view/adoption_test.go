package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
)

func TestLabelsThatAreHandedOverAreCountedByValueAndRule(t *testing.T) {
	a := Adoption{impact.Adoption{Key: "tier", Derived: 1}}
	for _, node := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
		a.Adopt = append(a.Adopt, impact.AdoptedLabel{Node: node, Value: "gold", Rule: "high"})
	}
	a.Adopt = append(a.Adopt, impact.AdoptedLabel{Node: "n7", Value: "iron", Rule: "low"})
	d := a.Document(now)
	assert.Equal(t, [][]any{{"gold", "high", 6, "n1,n2,n3,n4,n5"}, {"iron", "low", 1, "n7"}}, rowsOf(d.Tables[0]))
	assert.Empty(t, d.Tables[1].Rows)
}

func rowsOf(table *metav1.Table) (rows [][]any) {
	for _, row := range table.Rows {
		rows = append(rows, row.Cells)
	}
	return rows
}
