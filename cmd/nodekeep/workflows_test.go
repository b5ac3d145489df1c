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

// A tag of an action can be moved to other code, which then has the rights of the workflow.
func TestWorkflowsNameActionsByDigest(t *testing.T) {
	paths, err := filepath.Glob("../../.github/workflows/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	pinned := regexp.MustCompile(`^([\w-]+/[\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	versions := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, uses := range regexp.MustCompile(`(?m)\buses: *(.*)$`).FindAllStringSubmatch(string(content), -1) {
			action := pinned.FindStringSubmatch(uses[1])
			if !assert.NotNil(t, action, "%s: %s", filepath.Base(path), uses[1]) {
				continue
			}
			version := action[2] + " " + action[3]
			assert.Equal(t, version, firstOf(versions, action[1], version), "%s: one version of %s", filepath.Base(path), action[1])
		}
	}
	assert.NotEmpty(t, versions)
}

// firstOf returns what a key had first.
func firstOf(values map[string]string, key, value string) string {
	if _, ok := values[key]; !ok {
		values[key] = value
	}
	return values[key]
}

func TestDependabotUpdatesEachModule(t *testing.T) {
	content, err := os.ReadFile("../../.github/dependabot.yml")
	require.NoError(t, err)
	var settings struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	require.NoError(t, yaml.Unmarshal(content, &settings))
	var updated, modules []string
	for _, update := range settings.Updates {
		if update.Ecosystem == "gomod" {
			updated = append(updated, update.Directories...)
		}
	}
	root := os.DirFS("../..")
	require.NoError(t, fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.Name() == "go.mod" {
			modules = append(modules, strings.TrimSuffix("/"+strings.TrimSuffix(path, "go.mod"), "/"))
		}
		return nil
	}))
	for i, module := range modules {
		if module == "" {
			modules[i] = "/"
		}
	}
	assert.ElementsMatch(t, modules, updated)
}
