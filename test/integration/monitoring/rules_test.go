package monitoring

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// unitTests is the file that promtool runs.
const unitTests = "alerts_test.yaml"

func TestPromtoolAcceptsTheAlertsAndTheirUnitTestsPass(t *testing.T) {
	out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(shipped, "alerts.yaml"))
	require.NoError(t, err, out)
	assert.Contains(t, out, "rules found")
	out, err = promtool(t, "test", "rules", "--diff", unitTests)
	require.NoError(t, err, out)
}

// The unit tests are worth something: one that is spoilt fails.
func TestPromtoolSeesAnAlertThatDoesNotFire(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(shipped, "alerts.yaml"))
	require.NoError(t, err)
	dir := t.TempDir()
	spoilt := strings.Replace(string(content), "nodekeep_capture_nodes_current / nodekeep_capture_nodes", "nodekeep_capture_nodes / nodekeep_capture_nodes", 1)
	require.NotEqual(t, string(content), spoilt)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(spoilt), 0o600))
	tests, err := os.ReadFile(unitTests)
	require.NoError(t, err)
	tests = regexp.MustCompile(`(?m)^rule_files: .*$`).ReplaceAll(tests, []byte("rule_files: [alerts.yaml]"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, unitTests), tests, 0o600))
	out, err := promtool(t, "test", "rules", "--run", "records are not current", filepath.Join(dir, unitTests))
	require.Error(t, err)
	assert.Contains(t, out, "NodekeepRecordsNotCurrent")
}

// scenario is one test of the file.
type scenario struct {
	Name        string `json:"name"`
	InputSeries []struct {
		Series string `json:"series"`
	} `json:"input_series"`
	PromQLExprTest []struct {
		Expr       string `json:"expr"`
		ExpSamples []struct {
			Labels string `json:"labels"`
		} `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

func TestEveryAlertHasAScenarioInWhichItFiresAndOneWithItsSeriesInWhichItDoesNot(t *testing.T) {
	content, err := os.ReadFile(unitTests)
	require.NoError(t, err)
	var file struct {
		Tests []scenario `json:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(content, &file))
	metrics := map[string][]string{}
	for _, a := range alerts(t).alerts() {
		metrics[a.Alert] = parsed(t, a.Expr)[0].metrics()
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, s := range file.Tests {
		input := s.input(t)
		for _, test := range s.PromQLExprTest {
			firing := map[string]bool{}
			for _, sample := range test.ExpSamples {
				name := regexp.MustCompile(`alertname="(\w+)"`).FindStringSubmatch(sample.Labels)
				require.NotNil(t, name, sample.Labels)
				assert.Contains(t, sample.Labels, `alertstate="firing"`, s.Name)
				firing[name[1]] = true
			}
			shows := parsed(t, test.Expr)[0].Selectors[0]
			for name, needed := range metrics {
				if firing[name] {
					fires[name] = true
				} else if shows.showsAlert(name) && subset(needed, input) {
					silent[name] = true
				}
			}
		}
	}
	for _, a := range alerts(t).alerts() {
		assert.True(t, fires[a.Alert], "no scenario in which %s fires", a.Alert)
		assert.True(t, silent[a.Alert], "no scenario with the series of %s in which it does not fire", a.Alert)
	}
}

// input returns the names of the series of a scenario.
func (s scenario) input(t *testing.T) (names []string) {
	t.Helper()
	var all []string
	for _, series := range s.InputSeries {
		all = append(all, series.Series)
	}
	for _, answer := range parsed(t, all...) {
		names = append(names, answer.metrics()...)
	}
	return names
}

// showsAlert says whether a selector of ALERTS would show this one.
func (s selector) showsAlert(name string) bool {
	for _, m := range s.Matchers {
		if m.Label == "alertname" && !slices.ContainsFunc(m.wants(), func(r *regexp.Regexp) bool { return r.MatchString(name) }) {
			return false
		}
	}
	return true
}

func subset(part, names []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(names, s) })
}

func TestEveryAlertSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	names := map[string]bool{}
	for _, a := range alerts(t).alerts() {
		assert.False(t, names[a.Alert], "%s is there twice", a.Alert)
		names[a.Alert] = true
		assert.Regexp(t, "^Nodekeep[A-Z]", a.Alert)
		assert.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"], a.Alert)
		assert.Equal(t, []string{"description", "summary"}, slices.Sorted(maps.Keys(a.Annotations)), a.Alert)
		assert.NotRegexp(t, `\.$|\n`, a.Annotations["summary"], a.Alert)
		assert.Regexp(t, `\.$`, a.Annotations["description"], a.Alert)
		assert.Greater(t, len(a.Annotations["description"]), 80, a.Alert)

		// A label that the result does not have is an empty word in the text.
		labels := parsed(t, a.Expr)[0].Labels
		for _, text := range a.Annotations {
			for _, used := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				assert.Contains(t, labels, used[1], "%s speaks of a label that it drops", a.Alert)
			}
		}
	}
}

// docs/monitoring.md has a row for each alert, with how bad it is and for how long.
func TestTheTableInTheDocsIsThatOfTheAlerts(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/monitoring.md")
	require.NoError(t, err)
	var rows, want [][]string
	for _, row := range regexp.MustCompile("(?m)^\\| `(Nodekeep\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(docs), -1) {
		rows = append(rows, row[1:])
	}
	for _, a := range alerts(t).alerts() {
		held := a.For
		if held == "" {
			held = "at once"
		}
		want = append(want, []string{a.Alert, a.Labels["severity"], held})
	}
	assert.Equal(t, want, rows)
}
