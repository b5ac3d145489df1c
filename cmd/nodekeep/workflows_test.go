package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// workflow is what the tests look at in a file of .github/workflows.
type workflow struct {
	Permissions any            `json:"permissions"`
	Jobs        map[string]job `json:"jobs"`
}

type job struct {
	Environment string            `json:"environment"`
	Permissions map[string]string `json:"permissions"`
	Steps       []step            `json:"steps"`
}

type step struct {
	Uses string            `json:"uses"`
	Run  string            `json:"run"`
	With map[string]any    `json:"with"`
	Env  map[string]string `json:"env"`
}

// commands returns what the steps of a job run.
func (j job) commands() (all []string) {
	for _, s := range j.Steps {
		if s.Run != "" {
			all = append(all, s.Run)
		}
	}
	return all
}

// workflows returns the content of each workflow, by file.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../.github/workflows/*.y*ml")
	require.NoError(t, err)
	all := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all[filepath.Base(path)] = string(content)
	}
	require.Contains(t, all, "release.yaml")
	return all
}

// parsed returns what a workflow says.
func parsed(t *testing.T, content string) (w workflow) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(content), &w))
	return w
}

// A tag of an action can be moved to other code, which then has the rights of the workflow.
func TestWorkflowsNameActionsByDigest(t *testing.T) {
	pinned := regexp.MustCompile(`^([\w-]+/[\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	versions := map[string]string{}
	for name, content := range workflows(t) {
		for _, uses := range regexp.MustCompile(`(?m)\buses: *(.*)$`).FindAllStringSubmatch(content, -1) {
			action := pinned.FindStringSubmatch(uses[1])
			if !assert.NotNil(t, action, "%s: %s", name, uses[1]) {
				continue
			}
			version := action[2] + " " + action[3]
			assert.Equal(t, version, firstOf(versions, action[1], version), "%s: one version of %s", name, action[1])
		}
	}
	assert.NotEmpty(t, versions)
}

// Without a line of its own, a workflow has all rights that the repository gives by default.
func TestEachWorkflowMayOnlyReadUnlessAJobSaysMore(t *testing.T) {
	for name, content := range workflows(t) {
		assert.Contains(t, []any{"read-all", map[string]any{"contents": "read"}}, parsed(t, content).Permissions, name)
	}
}

// What is released was built by a job that cannot sign or push, from the source alone. The job that can, begins by a look at the commit.
func TestAReleaseIsBuiltWithoutRightsAndPublishedOfMainOnly(t *testing.T) {
	release := parsed(t, workflows(t)["release.yaml"])
	require.Len(t, release.Jobs, 2)
	build, publish := release.Jobs["build"], release.Jobs["publish"]
	assert.Empty(t, build.Permissions)
	assert.Equal(t, "release", publish.Environment)
	assert.Equal(t, "write", publish.Permissions["id-token"])
	for _, s := range publish.Steps {
		assert.NotRegexp(t, `\bmake (release|push|image|package)\b`, s.Run, "it builds nothing of nodekeep")
	}
	commands := publish.commands()
	require.GreaterOrEqual(t, len(commands), 2)
	assert.Equal(t, []string{`test "$AGREED" = yes`, `git merge-base --is-ancestor "$GITHUB_SHA" origin/main`}, commands[:2])
	caches := 0
	for _, s := range append(build.Steps, publish.Steps...) {
		if strings.HasPrefix(s.Uses, "actions/setup-go@") {
			caches++
			assert.Equal(t, false, s.With["cache"], "what another workflow has cached is in no release")
		}
	}
	assert.Equal(t, 2, caches)
}

// GitHub makes an environment that does not exist, without reviewers. A variable that only the environment has is not in that one.
func TestWithoutTheEnvironmentOfReleasesNothingIsPublished(t *testing.T) {
	first := parsed(t, workflows(t)["release.yaml"]).Jobs["publish"].Steps[0]
	assert.Equal(t, map[string]string{"AGREED": "${{ vars.RELEASE_AGREED }}"}, first.Env)
	assert.Contains(t, committed(t, "CONTRIBUTING.md"), "the variable `RELEASE_AGREED`: `yes`")
	for agreed, ok := range map[string]bool{"yes": true, "": false, "no": false} {
		command := exec.CommandContext(t.Context(), "bash", "-e", "-c", first.Run)
		command.Env = append(os.Environ(), "AGREED="+agreed)
		assert.Equal(t, ok, command.Run() == nil, "RELEASE_AGREED=%q", agreed)
	}
}

// Packages are private at first, and a workflow that is logged in could verify what no user can read.
func TestAReleaseIsVerifiedWithoutALogin(t *testing.T) {
	loggedIn, verified := false, false
	for _, command := range parsed(t, workflows(t)["release.yaml"]).Jobs["publish"].commands() {
		switch {
		case strings.Contains(command, "docker login "):
			loggedIn = true
		case strings.HasPrefix(command, "docker logout "):
			loggedIn = false
		case strings.HasPrefix(command, "make verify "):
			verified = true
			assert.False(t, loggedIn)
		case strings.Contains(command, "gh release create "):
			assert.True(t, verified, "the page comes after it")
		}
	}
	assert.True(t, verified)
}

// Whoever builds a release again gets other bytes if one of these settings is left out.
func TestTheDocumentedCommandBuildsWhatTheWorkflowBuilds(t *testing.T) {
	settings := func(text string) (names []string) {
		t.Helper()
		command := regexp.MustCompile(`make release \w+=.*`).FindString(text)
		for _, found := range regexp.MustCompile(` (\w+)=`).FindAllStringSubmatch(command, -1) {
			names = append(names, found[1])
		}
		require.NotEmpty(t, names)
		return names
	}
	assert.Equal(t, settings(workflows(t)["release.yaml"]), settings(committed(t, "CONTRIBUTING.md")))
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
