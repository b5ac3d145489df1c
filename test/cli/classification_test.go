package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// step is a command of the docs and what it prints.
type step struct{ command, prints string }

// classification is docs/classification.md: its policy, and the commands of its console blocks.
func classification(t *testing.T) (policyFile string, steps []step) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "classification.md"))
	require.NoError(t, err)
	policies := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, policies, 1)
	steps = stepsOf(string(page))
	require.Greater(t, len(steps), 20)
	return policies[0][1], steps
}

// stepsOf returns the commands of console blocks.
func stepsOf(page string) (steps []step) {
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			last := len(steps) - 1
			switch command, ok := strings.CutPrefix(line, "$ "); {
			case ok:
				steps = append(steps, step{command: command})
			case strings.HasSuffix(steps[last].command, "|\n"): // a command may go on behind a pipe
				steps[last].command += line
			default:
				steps[last].prints += line
			}
		}
	}
	return steps
}

// pattern matches a documented output: "..." is anything, and columns are as wide as they need to be.
func pattern(prints string) *regexp.Regexp {
	text := strings.Join(strings.Fields(alike(prints)), " ")
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(text), `\.\.\.`, `.*`) + `$`)
}

// requirePrints runs the command until it prints what the page says: what capture does comes by itself.
func (s step) requirePrints(t *testing.T, dir string) {
	t.Helper()
	want := pattern(s.prints)
	var got string
	prints := func() bool {
		a := shell(t, dir, s.command)
		got = a.Out + a.ErrOut
		return a.Code == 0 && want.MatchString(strings.Join(strings.Fields(alike(got)), " "))
	}
	comesByItself := regexp.MustCompile(`^kubectl (-n \S+ )?get |^nodekeep (explain|show|history) `).MatchString(s.command)
	printed := prints()
	for end := time.Now().Add(settles); comesByItself && !printed && time.Now().Before(end); printed = prints() {
		time.Sleep(100 * time.Millisecond)
	}
	require.True(t, printed, "$ %s\n%s\nit printed\n%s", s.command, s.prints, got)
}

func TestTheClassificationOfTheDocsRunsAsItIsWritten(t *testing.T) {
	shipped := nodekeep.Policy(t)
	defer withPolicy(t, shipped)()
	dir := t.TempDir()
	policyFile, steps := classification(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policyFile), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(harness.Root(), "test"), filepath.Join(dir, "test")))

	hash := regexp.MustCompile(`\b[0-9a-f]{12}\b`)
	applied := ""
	for _, s := range steps {
		if applied != "" { // the hash of the rules changes with what rules can say
			loaded, err := policy.Load([]byte(applied), policy.DefaultGate)
			require.NoError(t, err)
			s.command = hash.ReplaceAllString(s.command, loaded.RulesHash())
			s.prints = hash.ReplaceAllString(s.prints, loaded.RulesHash())
		}
		s.requirePrints(t, dir)
		if now := nodekeep.Policy(t); now != shipped {
			applied = now
		}
	}
}
