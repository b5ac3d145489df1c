package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// columns is how wide a dashboard is.
const columns = 24

func TestEveryPanelIsWholeAndNonePaintsOverAnother(t *testing.T) {
	d := dashboard(t)
	assert.Equal(t, "nodekeep", d.UID)
	assert.NotEmpty(t, d.Title)
	assert.Positive(t, d.SchemaVersion)
	chosen := datasource{Type: "prometheus", UID: "${datasource}"}
	ids, taken := map[int]bool{}, map[area]string{}
	for _, p := range d.Panels {
		assert.NotEmpty(t, p.Title)
		assert.False(t, ids[p.ID], "id %d of %q is there twice", p.ID, p.Title)
		ids[p.ID] = true
		assert.Positive(t, p.GridPos.W*p.GridPos.H, p.Title)
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, columns, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := area{X: p.GridPos.X + x, Y: p.GridPos.Y + y}
				assert.Empty(t, taken[cell], "%q is painted over", p.Title)
				taken[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		assert.Contains(t, []string{"stat", "timeseries"}, p.Type, p.Title)
		assert.NotEmpty(t, p.Description, p.Title)
		assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		assert.Equal(t, chosen, p.Datasource, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		refs := map[string]bool{}
		for _, target := range p.Targets {
			assert.Equal(t, chosen, target.Datasource, p.Title)
			assert.False(t, refs[target.RefID], p.Title)
			refs[target.RefID] = true
			assert.Equal(t, p.Type == "timeseries", target.LegendFormat != "", "%q: a line needs a name", p.Title)
		}
	}
}

func TestADashboardOfASourceAndANamespaceIsChosenByVariables(t *testing.T) {
	var names []string
	for _, v := range dashboard(t).Templating.List {
		names = append(names, v.Name+" "+v.Type)
	}
	assert.Equal(t, []string{"datasource datasource", "namespace query"}, names)
	for _, e := range parsedExpressions(t) {
		for _, s := range e.Selectors {
			if !slices.Contains(foreign, s.Metric) && regexp.MustCompile("^panel").MatchString(e.place) {
				assert.True(t, slices.ContainsFunc(s.Matchers, func(m matcher) bool { return m.Label == "namespace" }),
					"%s: %s is of every namespace", e.place, s.Metric)
			}
		}
	}
}

// A legend that names a label which the query drops shows nothing in its place.
func TestLegendsNameLabelsThatTheirQueriesKeep(t *testing.T) {
	aggregates := regexp.MustCompile(`\b(sum|max|min|count|histogram_quantile)\b`)
	for _, p := range dashboard(t).Panels {
		for _, target := range p.Targets {
			kept := targetLabels
			if aggregates.MatchString(target.Expr) {
				kept = parsed(t, grafanaVariables.Replace(target.Expr))[0].Labels
			}
			for _, used := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, kept, used[1], "%q", p.Title)
			}
		}
	}
}

// Prometheus itself would take every query of the dashboard: promtool reads them as recording rules.
func TestPromtoolAcceptsEveryQueryOfTheDashboard(t *testing.T) {
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, e := range expressions(t) {
		rules = append(rules, rule{Record: "nodekeep:query", Expr: e.promql})
	}
	require.NotEmpty(t, rules)
	content, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	out, err := promtool(t, "check", "rules", "--lint=none", file)
	require.NoError(t, err, out)
}

// parsedExpression is an expression that was taken apart.
type parsedExpression struct {
	expression
	named
}

// parsedExpressions returns those of all alerts and of the dashboard; one that cannot be parsed fails the test.
func parsedExpressions(t *testing.T) (all []parsedExpression) {
	t.Helper()
	var promql []string
	for _, e := range expressions(t) {
		promql = append(promql, e.promql)
	}
	answers := parsed(t, promql...)
	for i, e := range expressions(t) {
		require.Empty(t, answers[i].Error, "%s: %s", e.place, e.promql)
		require.NotEmpty(t, answers[i].Selectors, e.place)
		all = append(all, parsedExpression{e, answers[i]})
	}
	return all
}
