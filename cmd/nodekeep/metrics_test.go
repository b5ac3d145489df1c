package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Every series is there from the start, before anything has happened: an alert on a rate needs it. What is exposed is pinned,
// since dashboards and alerts depend on it; run with -update to change it, and docs/monitoring.md with it.
func TestEverySeriesIsThereFromTheStart(t *testing.T) {
	for _, process := range []string{"webhook", "capture", "verify"} {
		t.Run(process, func(t *testing.T) {
			body := ours(runs(t, process).scrape(t))
			problems, err := promlint.New(strings.NewReader(body)).Lint()
			require.NoError(t, err)
			assert.Empty(t, problems)

			series := regexp.MustCompile(`(?m)^(nodekeep_\S+) .*$`).ReplaceAllString(body, "$1")
			golden := filepath.Join("testdata", "metrics-"+process+".txt")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(series), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), series)
		})
	}
}

// docs/monitoring.md has one row for each series, which says exactly this of it, and then what to alert on.
func TestTheTableInTheDocsIsWhatTheProcessesExpose(t *testing.T) {
	exposed := map[string]*documented{}
	for _, process := range []string{"webhook", "capture", "verify"} {
		for name, found := range read(ours(runs(t, process).scrape(t))) {
			found.process = process
			if prev, ok := exposed[name]; ok {
				found.process = map[string]string{"webhook+capture": "both", "both+verify": "all", "capture+verify": "capture, verify"}[prev.process+"+"+process]
				assert.Equal(t, prev.help, found.help)
				for label, values := range prev.labels {
					found.labels[label] = slices.Compact(slices.Sorted(slices.Values(append(values, found.labels[label]...))))
				}
			}
			exposed[name] = found
		}
	}
	docs, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(nodekeep_\\w+)` \\|.*$").FindAllStringSubmatch(string(docs), -1) {
		assert.NotContains(t, rows, row[1], "documented twice")
		rows[row[1]] = row[0]
	}
	assert.Equal(t, slices.Sorted(maps.Keys(exposed)), slices.Sorted(maps.Keys(rows)))
	for name, e := range exposed {
		assert.True(t, strings.HasPrefix(rows[name], e.row(name)), "the row of %s is\n%s\nand must begin with\n%s", name, rows[name], e.row(name))
	}
}

// documented is what the table says of a series.
type documented struct {
	process, kind, help string
	labels              map[string][]string // their values
}

func (d documented) row(name string) string {
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(d.labels)) {
		labels = append(labels, fmt.Sprintf("`%s`: %s", label, strings.Join(d.labels[label], ", ")))
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", name, d.kind, cmp.Or(strings.Join(labels, "; "), "none"), d.process, d.help)
}

// ours returns the lines of a scrape that are about nodekeep.
func ours(body string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(body, "\n"), func(line string) bool { return !strings.Contains(line, "nodekeep_") })
	return strings.Join(lines, "")
}

// read takes a scrape apart.
func read(body string) map[string]*documented {
	found := map[string]*documented{}
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for line := range strings.Lines(body) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP"):
			found[fields[2]] = &documented{help: fields[3], labels: map[string][]string{}}
		case strings.HasPrefix(line, "# TYPE"):
			found[fields[2]].kind = fields[3]
		default:
			name, labels, _ := strings.Cut(fields[0], "{")
			item, plain := found[name]
			if !plain {
				item = found[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")]
			}
			for _, l := range label.FindAllStringSubmatch(labels, -1) {
				if l[1] != "le" && !slices.Contains(item.labels[l[1]], l[2]) {
					item.labels[l[1]] = append(item.labels[l[1]], l[2])
				}
			}
		}
	}
	return found
}
