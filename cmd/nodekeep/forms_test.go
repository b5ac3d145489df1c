package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// form is a form for a new issue, with all fields that GitHub knows of it and that we use.
type form struct {
	Name, Description string
	Labels            []string
	Body              []struct {
		Type, ID   string
		Attributes struct {
			Label, Description, Value, Placeholder, Render string
			Options                                        []any
		}
		Validations struct{ Required bool }
	}
}

// GitHub shows no form in which something is wrong, and says so only to those who open its page.
func TestTheFormsOfIssuesAreOnesThatGitHubTakes(t *testing.T) {
	files, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yml")
	require.NoError(t, err)
	forms := 0
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		forms++
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var f form
		require.NoError(t, yaml.UnmarshalStrict(content, &f), file)
		assert.NotEmpty(t, f.Name, file)
		assert.NotEmpty(t, f.Description, file)
		questions, ids := 0, map[string]bool{}
		for _, element := range f.Body {
			switch element.Type {
			case "markdown":
				assert.NotEmpty(t, element.Attributes.Value, file)
				assert.Empty(t, element.ID, "%s: a text has no answer", file)
				continue
			case "dropdown", "checkboxes":
				assert.NotEmpty(t, element.Attributes.Options, file)
			default:
				assert.Contains(t, []string{"textarea", "input"}, element.Type, file)
				assert.Empty(t, element.Attributes.Options, file)
			}
			questions++
			assert.NotEmpty(t, element.Attributes.Label, file)
			assert.Regexp(t, `^[A-Za-z0-9_-]+$`, element.ID, file)
			assert.False(t, ids[element.ID], "%s: %s is there twice", file, element.ID)
			ids[element.ID] = true
		}
		assert.Greater(t, questions, 3, file)
		for _, named := range regexp.MustCompile(`[\w/-]+\.md\b`).FindAllString(string(content), -1) {
			assert.FileExists(t, filepath.Join("../..", named), file)
		}
		for _, quoted := range regexp.MustCompile("`nodekeep ([a-z][^`]*)`").FindAllStringSubmatch(string(content), -1) {
			words := strings.Fields(quoted[1])
			command, _, err := commands()[0].Find(words[:1])
			require.NoError(t, err, "%s: %s", file, quoted[0])
			for _, word := range words[1:] {
				if flag, isFlag := strings.CutPrefix(word, "--"); isFlag {
					assert.NotNil(t, command.Flags().Lookup(flag), "%s: %s", file, quoted[0])
				}
			}
		}
	}
	assert.Equal(t, 2, forms)
}
