package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli"
)

// The page of the commands is part of a release, and not of the repository.
var docsFile = flag.String("docs", "", "write the page of the commands to this file")

func TestThePageOfTheCommandsIsMadeOfTheirHelp(t *testing.T) {
	page := docs(t)
	for _, found := range link.FindAllStringSubmatch(page, -1) {
		anchor, inPage := strings.CutPrefix(found[1], "#")
		assert.True(t, !inPage || slices.Contains(anchors(page), anchor), "a link leads to %s", found[1])
	}
	assert.Contains(t, page, "\n## nodekeep release\n")
	if *docsFile != "" {
		require.NoError(t, os.WriteFile(*docsFile, []byte(page), 0o644))
	}
}

// pages returns the contents of all pages for readers, by file.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../docs/*.md", "../../*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			all[file] = string(content)
		}
	}
	return all
}

// Every promise names the test that shows it, so no test may be renamed or removed without its row.
func TestEveryTestThatTheDocsNameExists(t *testing.T) {
	present := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllStringSubmatch(string(content), -1) {
			present[found[1]] = true
		}
		return err
	}))
	named := 0
	for page, content := range pages(t) {
		for _, found := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)").FindAllStringSubmatch(content, -1) {
			named++
			assert.True(t, present[found[1]], "%s names %s, which does not exist", filepath.Base(page), found[1])
		}
	}
	assert.Greater(t, named, 100, "the pages must have been read")
}

// A pattern that names no test any more would run nothing, and say nothing.
func TestEveryTestThatTheMakefileNamesExists(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	for variable, folders := range map[string][]string{
		"ESSENTIALS":    {"integration", "integration/governance", "integration/verification", "integration/versions"},
		"GATE_POLICY":   {"integration", "integration/versions"},
		"LONG_FAULTS":   {"attack", "faults", "integration/removal"},
		"ONE_GOROUTINE": {"../capture", "../store", "../webhook"},
		"ARROWS":        {"../cmd/nodekeep"},
		"PROSE":         {"../cmd/nodekeep"},
	} {
		var tests strings.Builder
		for _, folder := range folders {
			files, err := filepath.Glob(filepath.Join("../../test", folder, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				tests.Write(content)
			}
		}
		patterns := regexp.MustCompile(`(?m)^` + variable + ` *= *(.+)$`).FindSubmatch(makefile)
		require.NotNil(t, patterns, variable)
		for _, pattern := range strings.Split(string(patterns[1]), "|") {
			assert.Regexp(t, `(?m)^func Test\w*`+pattern, tests.String(), "%s names a test that is not in %s", variable, folders)
		}
	}
}

// Values of the last release, or of a command, are in no file that an operator checks. Those that a file lost would stay in force silently.
func TestEveryUpgradeThatIsShownTakesAllItsValuesFromTheFile(t *testing.T) {
	shown := map[string]string{}
	for page, content := range pages(t) {
		for n, block := range regexp.MustCompile("(?ms)^ *```\\w*\n(.*?)^ *```").FindAllStringSubmatch(content, -1) {
			shown[fmt.Sprintf("%s, block %d", page, n)] = block[1]
		}
		for n, code := range regexp.MustCompile("`helm [^`]*`").FindAllString(content, -1) {
			shown[fmt.Sprintf("%s, command %d", page, n)] = strings.Trim(code, "`")
		}
	}
	for _, folder := range []string{"../../cli", "../../manifests/chart"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			shown[path] = string(content)
			return err
		}))
	}
	upgrades := 0
	for place, text := range shown {
		assert.NotRegexp(t, `--(reuse|reset-then-reuse)-values`, text, place)
		for _, command := range regexp.MustCompile(`helm (?:install|upgrade) \w+ manifests/chart(?:.*\\\n)*.*`).FindAllString(text, -1) {
			assert.Contains(t, command, "--values values.yaml", place)
			assert.NotContains(t, command, "--set", place)
			if strings.HasPrefix(command, "helm upgrade") {
				upgrades++
				assert.Contains(t, command, "--reset-values", place)
			}
		}
	}
	assert.Greater(t, upgrades, 3, "the pages must have been read")
}

// Rows of tables and blocks of code cannot be broken.
func TestNoLineOfThePagesIsLongerThan120Characters(t *testing.T) {
	for page, content := range pages(t) {
		code, number := false, 0
		for line := range strings.Lines(content) {
			number++
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "```") {
				code = !code
			}
			if !code && !strings.HasPrefix(text, "|") {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 120, "%s:%d", filepath.Base(page), number)
			}
		}
		assert.False(t, code, "%s has a block of code without an end", page)
	}
}

// A row without a test is a claim that nobody has tried. "the same" is the test of the row above.
func TestEveryAttackAndEveryPromiseNamesItsTest(t *testing.T) {
	_, attacks, found := strings.Cut(pages(t)["../../docs/security.md"], "\n## What an attacker can try\n")
	require.True(t, found)
	attacks, _, _ = strings.Cut(attacks, "\n## ")
	promises, _, found := strings.Cut(pages(t)["../../docs/guarantees.md"], "\n## What nobody can keep\n")
	require.True(t, found)
	test := regexp.MustCompile("`(Test|Fuzz)[A-Z]|^ *the same|`test/")
	for page, minimum := range map[string]int{attacks: 50, promises: 100} {
		rows, named := 0, false // whether the last column of this table names tests
		for line := range strings.Lines(page) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			switch {
			case len(cells) < 4:
				named = false
			case strings.TrimSpace(cells[len(cells)-2]) == "Test":
				named = true
			case named && !strings.Contains(line, "---|") && !strings.Contains(line, "| ---"):
				rows++
				assert.Regexp(t, test, cells[len(cells)-2], line)
			}
		}
		assert.Greater(t, rows, minimum)
	}
}

func TestEveryOperatorsCommandHasExamplesAndAGroup(t *testing.T) {
	for _, command := range commands() {
		if !command.IsAvailableCommand() || command.HasSubCommands() || strings.HasPrefix(command.CommandPath(), "nodekeep completion") {
			continue
		}
		assert.True(t, command.GroupID != "" || command.Parent().GroupID != "", "%s is in no group of the help", command.CommandPath())
		if command.GroupID != processes && command.GroupID != installation {
			assert.NotEmpty(t, command.Example, "%s has no examples", command.CommandPath())
		}
	}
}

// A help text speaks of flags of its own command, and of those of a command that it quotes.
func TestHelpNamesOnlyFlagsThatTheCommandHas(t *testing.T) {
	flag, quoted := regexp.MustCompile(`(^|[^\w-])--([a-z][a-z-]+)`), regexp.MustCompile(`"nodekeep [a-z]+[^"]*"`)
	named := 0
	for _, command := range commands() {
		if strings.HasPrefix(command.CommandPath(), "nodekeep completion") { // cobra's, about shells
			continue
		}
		texts := []string{command.Short, command.Long}
		command.Flags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for _, text := range texts {
			text = quoted.ReplaceAllStringFunc(text, func(line string) string {
				name := strings.Fields(strings.Trim(line, `"`))[1]
				for _, found := range flag.FindAllStringSubmatch(line, -1) {
					if other, _, err := command.Root().Find([]string{name}); assert.NoError(t, err) && other.Flags().Lookup(found[2]) == nil {
						t.Errorf("%s speaks of %s, which has no --%s", command.CommandPath(), line, found[2])
					}
				}
				return ""
			})
			for _, found := range flag.FindAllStringSubmatch(text, -1) {
				named++
				if command.Flags().Lookup(found[2]) == nil && command.InheritedFlags().Lookup(found[2]) == nil {
					t.Errorf("%s speaks of --%s, which it does not have", command.CommandPath(), found[2])
				}
			}
		}
		for line := range strings.Lines(command.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			if !strings.HasPrefix(line, command.CommandPath()+" ") {
				continue
			}
			for _, found := range flag.FindAllStringSubmatch(line, -1) {
				assert.NotNil(t, command.Flags().Lookup(found[2]), "%s: %s", command.CommandPath(), line)
			}
		}
	}
	assert.Greater(t, named, 10)
	assert.Contains(t, commands()[0].Short, "taints")
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

` + "`nodekeep help COMMAND`" + ` prints the same. Called as ` + "`kubectl nodekeep`" + `, the help says that in place of ` + "`nodekeep`" + `.

`

// listed are the lines of a help text that are indented, up to the end of the last one: Markdown would make one paragraph of them. They follow an
// empty line. Other lines that are indented go on an entry of a list.
var listed = regexp.MustCompile(`(^|\n\n)(  .*(?:\n  .*)*)`)

func TestOnlyListedLinesAreABlock(t *testing.T) {
	assert.Equal(t, "Modes:\n\n```\n  a  one\n     more\n  b  two\n```\n\nSteps:\n\n1. It stops the\n   gate.\n2. Done.", fenced("Modes:\n\n  a  one\n     more\n  b  two\n\nSteps:\n\n1. It stops the\n   gate.\n2. Done."))
}

func fenced(text string) string { return listed.ReplaceAllString(text, "$1```\n$2\n```") }

func docs(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	out.WriteString(docsHead)
	for _, command := range commands() {
		if !command.IsAvailableCommand() && command.HasParent() || strings.HasPrefix(command.CommandPath(), "nodekeep completion ") {
			continue
		}
		cli.HideCommonFlags(command)
		command.Long = fenced(command.Long)
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

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestEveryLinkInTheDocsLeadsToAFileAndAHeading(t *testing.T) {
	followed := 0
	for page, content := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(content, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			followed++
			if workflow, badge := strings.CutPrefix(found[1], "../../actions/workflows/"); badge { // of the repository's pages on GitHub, not of its files
				assert.FileExists(t, filepath.Join("../../.github/workflows", strings.TrimSuffix(workflow, "/badge.svg")), "%s links to %s", filepath.Base(page), found[1])
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			text, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				continue
			}
			if assert.NoError(t, err, "%s links to %s", filepath.Base(page), found[1]) && anchor != "" {
				assert.Contains(t, anchors(string(text)), anchor, "%s links to %s", filepath.Base(page), found[1])
			}
		}
	}
	assert.Greater(t, followed, 100, "the pages must have been read")
}

// anchors returns the names that GitHub gives the headings of a page.
func anchors(page string) []string {
	var all []string
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(link.ReplaceAllString(found[1], "]")), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// README says what each version of Kubernetes gets, SECURITY.md which version of nodekeep supports which.
func TestTheSupportedVersionsAgree(t *testing.T) {
	read := func(path string) string {
		content, err := os.ReadFile(filepath.Join("../..", path))
		require.NoError(t, err)
		return string(content)
	}
	rows := regexp.MustCompile(`(?m)^\| (1\.\d+) to (1\.\d+) \|`).FindAllStringSubmatch(read("README.md"), -1)
	require.Len(t, rows, 2, "README's table, newest first")
	version := regexp.MustCompile(`(?m)^version: (\d+\.\d+)\.`).FindStringSubmatch(read("manifests/chart/Chart.yaml"))
	require.NotNil(t, version)
	assert.Contains(t, read("SECURITY.md"), "\n| "+version[1]+" | "+rows[1][1]+" to "+rows[0][2]+" ", "the row of this version")
	assert.Contains(t, read("manifests/chart/Chart.yaml"), `kubeVersion: ">=`+rows[1][1]+`.0-0"`)
}
