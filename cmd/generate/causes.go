package main

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/verify"
)

// causes has a row for each cause of package verify.
func causes() string {
	rows := []string{"| Cause | State | What it says | What comes next |", "|---|---|---|---|"}
	for _, row := range verify.Causes() {
		states := make([]string, len(row.States))
		for i, state := range row.States {
			states[i] = string(state)
		}
		means := strings.Replace(row.Means, "%s", "*...*", 1)
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", row.Cause, strings.Join(states, ", "), means, row.Next))
	}
	return strings.Join(rows, "\n") + "\n"
}
