package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheVersionCommandSaysVersionCommitAndGo(t *testing.T) {
	code, stdout, stderr := nodekeep(t, "version")
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^version: \S+\ncommit:  \S+\ngo:      go1\.\d+\S* \w+/\w+\n$`, stdout)

	code, _, stderr = nodekeep(t, "version", "1")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, `unexpected argument "1"`)
}

func TestABuildIsKnownByItsStampOrByWhatTheGoToolNoted(t *testing.T) {
	repository := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main:     debug.Module{Version: "v0.0.0-20260101000000-0123456789ab"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: modified}},
		}
	}
	for name, c := range map[string]struct {
		version, commit string
		info            *debug.BuildInfo
		want            [2]string
	}{
		"a stamp wins":                        {"v1.2.3", "feed", repository("false"), [2]string{"v1.2.3", "feed"}},
		"a build in a repository":             {"", "", repository("false"), [2]string{"v0.0.0-20260101000000-0123456789ab", "0123456789abcdef"}},
		"a build in a repository with edits":  {"", "", repository("true"), [2]string{"v0.0.0-20260101000000-0123456789ab", "0123456789abcdef-dirty"}},
		"installed as a release":              {"", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, [2]string{"v1.2.3", "unknown"}},
		"a build that leaves out the history": {"", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, [2]string{"development", "unknown"}},
		"a binary without notes":              {"", "", nil, [2]string{"development", "unknown"}},
		"only the version is stamped":         {"v1.2.3", "", repository("false"), [2]string{"v1.2.3", "0123456789abcdef"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := buildOf(c.version, c.commit, c.info)
			assert.Equal(t, c.want, [2]string{got.version, got.commit})
		})
	}
}
