package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Table is numbers for a page and for spreadsheets.
type Table struct {
	Section string
	Name    string // for CSV
	Title   string
	Note    string
	Columns []Column
	Rows    [][]any // strings, ints and float64s; nil: absent
	// DataOnly says that a chart shows it, so that no table has to.
	DataOnly bool
}

// Column is one of a table.
type Column struct {
	Name   string
	Number bool
}

func text(name string) Column   { return Column{Name: name} }
func number(name string) Column { return Column{Name: name, Number: true} }

// absent is the text of a cell that is not there. No label can have this value.
const absent = "-"

// Text returns a cell as text.
func Text(cell any) string {
	switch c := cell.(type) {
	case nil:
		return absent
	case string:
		return cmp.Or(c, `""`)
	case int:
		return strconv.Itoa(c)
	case float64:
		return strconv.FormatFloat(c, 'f', -1, 64)
	default:
		return fmt.Sprint(c)
	}
}

// valueIn returns the cell of a value; nil: it is not there.
func valueIn(value *string) any {
	if value == nil {
		return nil
	}
	return *value
}

// listIn returns the cell of a list.
func listIn(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return strings.Join(list, ", ")
}

func (t *Table) add(cells ...any) { t.Rows = append(t.Rows, cells) }

// First returns the table with so many rows at most, and how many are left out.
func (t Table) First(rows int) (first Table, omitted int) {
	omitted = max(0, len(t.Rows)-rows)
	t.Rows = t.Rows[:len(t.Rows)-omitted]
	return t, omitted
}
