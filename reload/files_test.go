package reload_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/reload"
)

func TestTheLastGoodFilesCountAndEachProblemIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	var changes, problems []string
	ended := 0
	files := reload.New(func(contents [][]byte) (string, error) {
		value := string(contents[0]) + string(contents[1])
		switch value {
		case "bad!":
			return "", errors.New("bad")
		case "panic!":
			panic("parse")
		}
		return value, nil
	}, func(value string) {
		if value == "late!" && len(problems) == 3 {
			panic("changed")
		}
		changes = append(changes, value)
	}, func(err error) {
		if err == nil {
			ended++
			return
		}
		problems = append(problems, err.Error())
	}, first, second)
	write := func(path, content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }

	_, ok := files.Value()
	assert.False(t, ok)
	require.NoError(t, files.Err(), "not read yet")
	for _, step := range []struct {
		content, value           string
		good                     bool
		changes, problems, ended int
		reads                    int // before it is as it says
	}{
		{content: "", value: "", good: false, problems: 1}, // the second file is missing
		{content: "a", value: "a!", good: true, changes: 1, problems: 1},
		{content: "bad", value: "a!", good: false, changes: 1, problems: 2},
		{content: "panic", value: "a!", good: false, changes: 1, problems: 3},
		{content: "a", value: "a!", good: true, changes: 1, problems: 3, ended: 1}, // nothing has changed
		{content: "b", value: "b!", good: true, changes: 2, problems: 3, ended: 1},
		{content: "late", value: "late!", good: true, changes: 3, problems: 4, ended: 1, reads: 1}, // the first read panics while it changes
	} {
		write(first, step.content)
		for range step.reads {
			files.Read()
			require.Error(t, files.Err())
		}
		for range 2 { // the second time, nothing is new
			files.Read()
			value, ok := files.Value()
			assert.Equal(t, step.value, value)
			assert.Equal(t, step.changes > 0, ok)
			assert.Equal(t, step.good, files.Err() == nil, step.content)
			assert.Len(t, changes, step.changes, step.content)
			assert.Len(t, problems, step.problems, step.content)
			assert.Equal(t, step.ended, ended, step.content)
		}
		write(second, "!")
	}
}
