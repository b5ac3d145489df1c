package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

type answer = harness.Answer

// run runs the program as an admin.
func run(t *testing.T, args ...string) answer {
	t.Helper()
	return nodekeep.Command(t, "", "", args...)
}

// answering runs the program as an admin who types that.
func answering(t *testing.T, stdin string, args ...string) answer {
	t.Helper()
	return nodekeep.Command(t, "", stdin, args...)
}

// shell runs a command line as an admin types it, in a folder.
func shell(t *testing.T, dir, line string) answer {
	t.Helper()
	return nodekeep.Shell(t, "", dir, line)
}

// ends runs the program as an admin. It must end with this code and say this on stderr.
func ends(t *testing.T, code int, says string, args ...string) answer {
	t.Helper()
	a := run(t, args...)
	assert.Equal(t, code, a.Code, "%v\n%s", args, a.ErrOut)
	assert.Contains(t, a.ErrOut, says, "%v", args)
	return a
}

// answerJSON runs the program as an admin with -o json, and reads its answer.
func answerJSON(t *testing.T, target any, args ...string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(run(t, append(args, "-o", "json")...).RequireDone(t).Out), target))
}

// What differs from run to run.
var (
	uids  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	times = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z\b`)
	ages  = regexp.MustCompile(`\b(\d+[smhd])+\b( *)`)
)

// alike writes what differs from run to run in one way, without moving the columns behind it.
func alike(text string) string {
	text = uids.ReplaceAllString(text, "00000000-0000-0000-0000-000000000000")
	text = times.ReplaceAllString(text, "2026-01-02T03:04:05Z")
	return ages.ReplaceAllStringFunc(text, func(age string) string {
		if !strings.HasSuffix(age, " ") {
			return "<age>"
		}
		return "<age>" + strings.Repeat(" ", max(1, len(age)-len("<age>")))
	})
}

// requireGolden compares an output with that of a file in testdata.
func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got = alike(got)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update and read what it writes")
	assert.Equal(t, string(want), got)
}
