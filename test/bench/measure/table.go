package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table is printed as Markdown with aligned columns.
type Table struct {
	title string
	out   io.Writer
	to    *tabwriter.Writer
}

// NewTable starts a table; all of it comes out with Flush.
func NewTable(out io.Writer, title string, columns ...string) *Table {
	t := &Table{title: title, out: out, to: tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)}
	head, rule := make([]any, len(columns)), make([]any, len(columns))
	for n, column := range columns {
		head[n], rule[n] = column, strings.Repeat("-", max(3, len(column)))
	}
	t.Row(head)
	t.Row(rule)
	return t
}

// Row adds a row. A slice stands for several cells.
func (t *Table) Row(cells ...any) {
	t.cells(cells)
	fmt.Fprintln(t.to, "|")
}

func (t *Table) cells(cells []any) {
	for _, cell := range cells {
		if several, ok := cell.([]any); ok {
			t.cells(several)
			continue
		}
		fmt.Fprintf(t.to, "| %v\t", cell)
	}
}

// Flush prints the table.
func (t *Table) Flush() {
	fmt.Fprintf(t.out, "\n### %s\n\n", t.title)
	_ = t.to.Flush()
}

// Milliseconds prints a short time.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// Seconds prints a long time.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// Mebibytes prints an amount of memory.
func Mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// Ratio prints how many times one is the other; nothing where that makes no sense.
func Ratio(value, base float64) string {
	if value == 0 || base == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", value/base)
}
