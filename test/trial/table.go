package trial

import (
	"regexp"
	"strings"
)

// row is a row of a table, by the names of its columns.
type row map[string]string

var (
	betweenCells = regexp.MustCompile(`\s{2,}`)
	heading      = regexp.MustCompile(`^[A-Z][A-Z ]*$`)
)

// rowsOf returns the rows of all tables in a text that have these columns. A table begins with its heading, in capital letters, and ends with an empty
// line.
func rowsOf(text string, columns ...string) (rows []row) {
	var names []string
	for line := range strings.Lines(text) {
		cells := betweenCells.Split(strings.TrimSpace(line), -1)
		switch {
		case strings.TrimSpace(line) == "":
			names = nil
		case names == nil && isHeading(cells):
			names = cells
		case names != nil && len(cells) == len(names):
			r := row{}
			for i, name := range names {
				r[name] = cells[i]
			}
			if r.matches(columns) {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func (r row) matches(columns []string) bool {
	for _, column := range columns {
		if _, ok := r[column]; !ok {
			return false
		}
	}
	return true
}

func isHeading(cells []string) bool {
	for _, cell := range cells {
		if !heading.MatchString(cell) {
			return false
		}
	}
	return len(cells) > 1
}

// factOf returns the value of a line such as "Status:   Present"; "" where there is none.
func factOf(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cell returns a value as tables show it.
func cell(value string, ok bool) string {
	switch {
	case !ok:
		return "-"
	case value == "":
		return `""`
	}
	return value
}
