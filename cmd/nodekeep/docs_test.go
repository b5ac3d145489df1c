package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli"
)

const docsFile = "../../docs/cli.md"

func TestTheDocsOfTheCommandsAreWhatTheCommandsSay(t *testing.T) {
	got := docs(t)
	if *update {
		require.NoError(t, os.WriteFile(docsFile, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "docs/cli.md is made of the commands: run `make docs` and read the difference")
}

// Every promise names the test that shows it, so no test may be renamed or removed without its row.
func TestEveryTestThatTheDocsNameExists(t *testing.T) {
	there := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllStringSubmatch(string(content), -1) {
			there[found[1]] = true
		}
		return err
	}))
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	named := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)").FindAllStringSubmatch(string(content), -1) {
			named++
			assert.True(t, there[found[1]], "%s names %s, which does not exist", filepath.Base(page), found[1])
		}
	}
	assert.Greater(t, named, 100, "the pages must have been read")
}

func TestEveryOperatorsCommandHasExamplesAndAGroup(t *testing.T) {
	for _, command := range commands() {
		if !command.IsAvailableCommand() || command.HasSubCommands() || command.Name() == "options" || strings.HasPrefix(command.CommandPath(), "nodekeep completion") {
			continue
		}
		assert.True(t, command.GroupID != "" || command.Parent().GroupID != "", "%s is in no group of the help", command.CommandPath())
		if command.GroupID != processes && command.GroupID != installation {
			assert.NotEmpty(t, command.Example, "%s has no examples", command.CommandPath())
		}
	}
}

// commands lists the whole tree, each command before those below it.
func commands() []*cobra.Command {
	root := newCommand("nodekeep", genericiooptions.NewTestIOStreamsDiscard())
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		all = append(all, command)
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(root)
	return all
}

const docsHead = `# The commands

Made of what the commands say of themselves by ` + "`make docs`" + `; a test compares the two. Called as ` + "`kubectl nodekeep`" + `, the help says that
in place of ` + "`nodekeep`" + `.

`

func docs(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	out.WriteString(docsHead)
	for _, command := range commands() {
		if !command.IsAvailableCommand() && command.HasParent() || strings.HasPrefix(command.CommandPath(), "nodekeep completion ") {
			continue
		}
		cli.HideCommonFlags(command)
		var page bytes.Buffer
		require.NoError(t, doc.GenMarkdownCustom(command, &page, func(file string) string {
			return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
		}))
		text, related, _ := strings.Cut(page.String(), "### SEE ALSO\n")
		if out.WriteString(text); !command.HasParent() {
			out.WriteString("### Commands\n" + strings.ReplaceAll(related, "\t - ", ": ") + "\n")
		}
	}
	fmt.Fprintf(&out, "## Exit codes\n\n%s", cli.ExitCodes)
	return out.String()
}
