package report

// Table is numbers for a page and for spreadsheets.
type Table struct {
	Section string
	Name    string // for CSV
	Title   string
	Note    string
	Columns []Column
	Rows    [][]any // strings, ints and float64s
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

func (t *Table) add(cells ...any) { t.Rows = append(t.Rows, cells) }

// First is the table with so many rows at most, and how many are left out.
func (t Table) First(rows int) (first Table, more int) {
	more = max(0, len(t.Rows)-rows)
	t.Rows = t.Rows[:len(t.Rows)-more]
	return t, more
}
