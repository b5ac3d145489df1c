package trial

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThereAreThirtyJobsAndEachExpectsSomething(t *testing.T) {
	jobs, err := Jobs()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(jobs), 30)
	for _, job := range jobs {
		assert.NotEmpty(t, job.Name)
		expects := 0
		for _, step := range job.Steps {
			assert.NotEqual(t, step.Run == "", step.Kubelet == "", "job %q: a step has one of both", job.Name)
			expects += len(step.Says) + len(step.Unsaid)
		}
		assert.Positive(t, expects, "job %q expects nothing", job.Name)
	}
}

func TestAStepNamesWhatIsNotAsItHasIt(t *testing.T) {
	step := Step{Run: "nodekeep list", Code: 1, Says: []string{"a  Present"}, Unsaid: []string{"Gone"}}
	assert.Empty(t, step.Wrong("a   Present", 1))
	assert.Len(t, step.Wrong("a   Gone", 0), 3)
}

func TestOnlyACommandAloneIsHeldToItsStatements(t *testing.T) {
	for line, want := range map[string][]string{
		"nodekeep show node-2 --verification":    {"show", "node-2", "--verification"},
		"nodekeep forget node-2 --dry-run":       {"forget", "node-2", "--dry-run"},
		"nodekeep list -o json":                  nil,
		"nodekeep list | wc -l":                  nil,
		"kubectl get nodes":                      nil,
		"cat >f <<'END'\nEND\nnodekeep doctor\n": nil,
	} {
		assert.Equal(t, want, Step{Run: line}.Statements(), line)
	}
}
