package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// globToPattern makes a regular expression of a glob without lists.
var globToPattern = strings.NewReplacer(".", `\.`, "**/", "(?:.*/)?", "*", "[^/]*")

// depguard knows the pure files by globs, forbidigo by an expression: a file of one list alone would be pure but for its clock, or the reverse.
func TestTheListsOfPureFilesAgree(t *testing.T) {
	content, err := os.ReadFile("../../.golangci.yml")
	require.NoError(t, err)
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string `json:"files"`
					} `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
			Exclusions struct {
				Rules []struct {
					Text       string `json:"text"`
					PathExcept string `json:"path-except"`
				} `json:"rules"`
			} `json:"exclusions"`
		} `json:"linters"`
	}
	require.NoError(t, yaml.Unmarshal(content, &config))
	var clock *regexp.Regexp
	for _, rule := range config.Linters.Exclusions.Rules {
		if rule.Text == "pure files have no clock" {
			clock = regexp.MustCompile(rule.PathExcept)
		}
	}
	require.NotNil(t, clock)
	globs := map[string]*regexp.Regexp{}
	for _, name := range []string{"pure", "pure-files"} {
		for _, glob := range config.Linters.Settings.Depguard.Rules[name].Files {
			for _, text := range eachOf(glob) {
				if glob != "!$test" {
					globs[text] = regexp.MustCompile("^" + globToPattern.Replace(text) + "$")
				}
			}
		}
	}
	used, pure := map[string]bool{}, 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		file := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") {
			return err
		}
		listed := false
		for glob, pattern := range globs {
			if pattern.MatchString(file) {
				listed, used[glob] = true, true
			}
		}
		assert.Equal(t, listed, clock.MatchString(file), "%s: whether depguard has it among the pure files, and whether forbidigo keeps clocks out of it", file)
		if listed {
			pure++
		}
		return nil
	}))
	for glob := range globs {
		assert.True(t, used[glob], "no file is %s", glob)
	}
	assert.Greater(t, pure, 100, "the source must have been read")
}

// eachOf returns the globs that a glob with one list in braces stands for.
func eachOf(glob string) []string {
	head, rest, found := strings.Cut(glob, "{")
	if !found {
		return []string{glob}
	}
	list, tail, _ := strings.Cut(rest, "}")
	var all []string
	for _, text := range strings.Split(list, ",") {
		all = append(all, head+text+tail)
	}
	return all
}
