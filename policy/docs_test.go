package policy

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"
)

func TestThePoliciesOfTheDocsLoad(t *testing.T) {
	policies := map[string]int{"labels-in-git.md": 0, "verification.md": 0}
	for page := range policies {
		text, err := os.ReadFile("../docs/" + page)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```").FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks)
		for _, block := range blocks {
			content := strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")
			if !strings.Contains(content, "\nkind: NodePolicy") { // of another object
				continue
			}
			_, err := Load([]byte(content), DefaultGate)
			require.NoError(t, err, "%s", content)
			policies[page]++
		}
	}
	assert.Equal(t, 4, policies["verification.md"])
	assert.Positive(t, policies["labels-in-git.md"])
}

// The table of the fields of a profile has them all, with the defaults that hold.
func TestTheDocsNameEveryFieldOfAProfile(t *testing.T) {
	text, err := os.ReadFile("../docs/verification.md")
	require.NoError(t, err)
	profile := reflect.TypeFor[verify.Profile]()
	for i := range profile.NumField() {
		name, _, _ := strings.Cut(profile.Field(i).Tag.Get("json"), ",")
		assert.Regexp(t, "(?m)^\\| `"+name+"[`.]", string(text), name)
	}
	for _, reason := range verify.BrakeReasons() {
		assert.Contains(t, string(text), "\n| `"+string(reason)+"` | ", reason)
	}
	for _, kind := range verify.RemovalKinds() {
		assert.Contains(t, string(text), "`onFailure: "+string(kind)+"`")
	}
	compiled, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{{Name: "a", Checks: []verify.Check{{Name: "a", API: &verify.API{}}}}}}, nil)
	require.Empty(t, errs)
	defaults, limits := compiled.All()[0].Profile, compiled.Limits
	for name, value := range map[string]string{
		"stopAbove": "`" + limits.StopAbove.String() + "`", "deletionsPerHour": strconv.Itoa(limits.DeletionsPerHour),
	} {
		assert.Contains(t, string(text), "\n| `"+name+"` | "+value+" |")
	}
	for name, value := range map[string]string{
		"mode": string(defaults.Mode), "taint": defaults.Taint, "timeout": defaults.Timeout, "startTimeout": defaults.StartTimeout, "deadline": defaults.Deadline, "onTimeout": string(defaults.OnTimeout),
	} {
		assert.Contains(t, string(text), "\n| `"+name+"` | `"+value+"` |")
	}
	assert.Contains(t, string(text), "| `attempts.backoff`, `maxBackoff` | `"+defaults.Attempts.Backoff+"`, `"+defaults.Attempts.MaxBackoff+"` |")
}
