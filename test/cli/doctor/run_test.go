package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// shell runs a command line as an admin types it.
func shell(t *testing.T, line string) harness.Answer {
	t.Helper()
	return nodekeep.Shell(t, "", "", line)
}

// run runs a command line that must work.
func run(t *testing.T, line string) string {
	t.Helper()
	a := shell(t, line)
	require.Equal(t, 0, a.Code, "%s\n%s%s", line, a.Out, a.ErrOut)
	return a.Out
}

// finds runs doctor until what it finds is what the golden file says: API servers take moments to follow changes. It returns the
// commands that are printed as remedies.
func finds(t *testing.T, name string, flags ...string) (remedies []string) {
	t.Helper()
	var a harness.Answer
	line := strings.Join(append([]string{"nodekeep doctor"}, flags...), " ")
	want := golden(t, name, func() string {
		time.Sleep(5 * time.Second)
		return findings(shell(t, line).Out)
	})
	eventually(t, func() bool { a = shell(t, line); return alike(findings(a.Out)) == want })
	assert.Equal(t, want, alike(findings(a.Out)))
	assert.Equal(t, 1, a.Code, a.ErrOut)
	for line := range strings.Lines(a.Out) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			remedies = append(remedies, strings.TrimSpace(command))
		}
	}
	return remedies
}

// golden returns the content of a golden file; with -update it is written anew.
func golden(t *testing.T, name string, now func() string) string {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(alike(now())), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update and read what it writes")
	return string(want)
}

// isHealthy runs doctor until it finds nothing.
func isHealthy(t *testing.T, flags ...string) (out string) {
	t.Helper()
	var a harness.Answer
	eventually(t, func() bool {
		a = shell(t, strings.Join(append([]string{"nodekeep doctor"}, flags...), " "))
		return a.Code == 0
	})
	require.Equal(t, 0, a.Code, "%s%s", a.Out, a.ErrOut)
	require.Empty(t, a.ErrOut)
	return a.Out
}

// eventually is like that of testify, whose first look comes late; on a timeout it says what it has seen.
func eventually(t *testing.T, current func() bool) {
	t.Helper()
	for end := time.Now().Add(settles); !current() && time.Now().Before(end); {
		time.Sleep(200 * time.Millisecond)
	}
}

// findings returns the checks that are not right, and what is said of them.
func findings(out string) string {
	table, below, _ := strings.Cut(out, "\n\n")
	var wrong []string
	for i, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 1 && fields[1] != "ok" {
			wrong = append(wrong, strings.Join(fields, " "))
		}
	}
	return strings.Join(wrong, "\n") + "\n\n" + notKept.ReplaceAllString(below, "")
}

// notKept are the notes about what Nodes have that is not kept: every Node has some.
var notKept = regexp.MustCompile(`(?s)\n?note \(not-kept\): .*?(\n\n|\n?$)`)

// What differs from run to run.
var differing = []struct {
	pattern *regexp.Regexp
	alike   string
}{
	{regexp.MustCompile(`\S+_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<leader>"},
	{regexp.MustCompile(`\b(\d+[smhd])+\b`), "<age>"},
	{regexp.MustCompile(`v1\.\d+\.\d+`), "<version>"},
	{regexp.MustCompile(`\(x509: [^)]*(\([^)]*\)[^)]*)?\)`), "(x509)"},
	{regexp.MustCompile(`nodekeep-doctor-[a-z0-9]+`), "nodekeep-doctor-<random>"},
	{regexp.MustCompile(`\d+ records?`), "<n> records"},
	{regexp.MustCompile(`\d+ of \d+ Nodes?`), "<n> of <n> Nodes"},
}

// alike writes what differs from run to run in one way.
func alike(text string) string {
	for _, row := range differing {
		text = row.pattern.ReplaceAllString(text, row.alike)
	}
	return text
}
