package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// lost is a scenario in which an edit is lost, within the limits: nobody ever observed it.
const lost = `# bounds {"Keys":1,"Values":2,"Captures":1,"Objects":2,"Edits":1,"Faults":2}
the Node registers
a client sets k0 to "one"
a client deletes the Node while the DELETE handler is down
capture 1 restarts
the Node registers
`

func TestAScenarioCanBeReplayed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario")
	require.NoError(t, os.WriteFile(file, []byte(lost), 0o644))
	var out bytes.Buffer
	ok, err := run([]string{"-replay", file}, &out)
	require.NoError(t, err)
	assert.True(t, ok, "that nobody observed the edit is a limit")
	for _, line := range []string{"a client sets k0 to \"one\"\n#   version 2: U1, k0=\"one\" by a client\n", "#   version 4: U2\n", "nothing is wrong"} {
		assert.Contains(t, out.String(), line)
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(lost, "capture 1 restarts", "capture 2 restarts", 1)), 0o644))
	_, err = run([]string{"-replay", file}, &out)
	require.ErrorContains(t, err, `line 4: "capture 2 restarts" cannot happen here`)
}

// The files are counterexamples that were found beyond the bounds of the suite. Both need two captures and two objects.
func TestScenariosThatOnceLostAnEditLoseNone(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var out bytes.Buffer
			ok, err := run([]string{"-replay", file}, &out)
			require.NoError(t, err)
			assert.True(t, ok, out.String())
		})
	}
}

// What is printed can be replayed, with what each step did as comments.
func TestWhatIsPrintedOfAScenarioReplaysTheSame(t *testing.T) {
	var counts [oracle.Excuses]int64
	space := newModel(bounds{Keys: 1, Values: 2, Captures: 1, Objects: 2, Edits: 1, Faults: 2}).space(&counts)
	w, steps, err := space.Read(strings.NewReader(lost))
	require.NoError(t, err)
	steps = append(steps, space.Rest(&w)...)
	require.Empty(t, space.JudgeAtRest(&w))
	assert.Equal(t, int64(1), counts[oracle.Unobserved])
	reread, done, err := space.Read(strings.NewReader(space.Show(steps)))
	require.NoError(t, err)
	assert.Equal(t, steps, done)
	assert.Equal(t, space.Hash(&w), space.Hash(&reread))
}
