package main

import (
	"bytes"
	"fmt"
	"os"
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
