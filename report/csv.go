package report

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// CSV returns all tables as one table. Two columns that name the section and the table come first, then the columns of all tables. A cell that a
// table does not have is absent, as one that has nothing to say.
func CSV(tables []Table) (string, error) {
	columns := []string{"section", "table"}
	for _, table := range tables {
		for _, column := range table.Columns {
			if !slices.Contains(columns, column.Name) {
				columns = append(columns, column.Name)
			}
		}
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	header := slices.Clone(columns)
	for i := range header {
		header[i] = harmless(header[i]) // resources are named by kubelets
	}
	if err := w.Write(header); err != nil {
		return "", fmt.Errorf("write CSV: %w", err)
	}
	for _, table := range tables {
		indices := make([]int, len(table.Columns))
		for i, column := range table.Columns {
			indices[i] = slices.Index(columns, column.Name)
		}
		line := make([]string, len(columns))
		for _, row := range table.Rows {
			for i := range line {
				line[i] = absent
			}
			line[0], line[1] = table.Section, table.Name
			for i, cell := range row {
				line[indices[i]] = csvCell(cell)
			}
			if err := w.Write(line); err != nil {
				return "", fmt.Errorf("write CSV: %w", err)
			}
		}
	}
	w.Flush()
	return b.String(), w.Error()
}

func csvCell(cell any) string {
	if _, ok := cell.(string); ok {
		return harmless(Text(cell))
	}
	return Text(cell)
}

// harmless returns a text that no spreadsheet reads as a formula. It adds a quote before a text that begins like one (OWASP, CSV injection). Where
// the separator of lists is a semicolon, spreadsheets take what follows one for a cell, also within quotes. So each part counts as a text of
// its own. Control characters become spaces, so that a cell is one line.
func harmless(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	parts := strings.Split(text, ";")
	for i, part := range parts {
		trimmed := strings.TrimLeftFunc(part, func(r rune) bool { return r == '"' || unicode.IsSpace(r) })
		if trimmed != "" && strings.ContainsRune("=+-@|%\uff1d\uff0b\uff0d\uff20", []rune(trimmed)[0]) {
			parts[i] = "'" + part
		}
	}
	return strings.Join(parts, ";")
}
