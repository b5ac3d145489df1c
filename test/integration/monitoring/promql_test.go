package monitoring

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// tool returns the path of a program of module test/programs/promql.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(harness.Root(), "test", "programs", "promql", "bin", name)
	_, err := os.Stat(path)
	require.NoError(t, err, "`make promtool` builds it")
	return path
}

// promtool runs it and returns what it says.
func promtool(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), args...).CombinedOutput()
	return string(out), err
}

// named is what an expression names, as module test/programs/promql shows it.
type named struct {
	Error     string     `json:"error"`
	Selectors []selector `json:"selectors"`
	Labels    []string   `json:"labels"`
}

type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
}

type matcher struct{ Label, Operator, Value string }

// parsed takes expressions apart.
func parsed(t *testing.T, promql ...string) (answers []named) {
	t.Helper()
	in, err := json.Marshal(promql)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), tool(t, "promql"))
	command.Stdin = bytes.NewReader(in)
	out, err := command.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &answers))
	require.Len(t, answers, len(promql))
	return answers
}

// literal is a regular expression that only lists values, which then can be looked at one by one.
var literal = regexp.MustCompile(`^[\w|-]+$`)

// wants returns the values that a matcher asks for: each must exist, or a misspelt one would go unnoticed among the others.
func (m matcher) wants() []*regexp.Regexp {
	switch {
	case m.Operator == "=":
		return []*regexp.Regexp{regexp.MustCompile("^" + regexp.QuoteMeta(m.Value) + "$")}
	case m.Operator == "=~" && literal.MatchString(m.Value):
		var item []*regexp.Regexp
		for _, value := range strings.Split(m.Value, "|") {
			item = append(item, regexp.MustCompile("^"+value+"$"))
		}
		return item
	case m.Operator == "=~":
		return []*regexp.Regexp{regexp.MustCompile("^(?:" + m.Value + ")$")}
	}
	return []*regexp.Regexp{regexp.MustCompile("")} // what is excluded need not be there, the label must
}

// metrics returns the names of all series that an expression asks for.
func (n named) metrics() (names []string) {
	for _, s := range n.Selectors {
		if !slices.Contains(names, s.Metric) {
			names = append(names, s.Metric)
		}
	}
	return names
}
