package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
)

func TestALineIsNewsWhenItIsWantedAndSaysSomethingElse(t *testing.T) {
	line := view.Summary{Name: "worker-1", Status: nodestate.Present, Labels: 1}
	o := line
	o.Labels = 2
	older := line
	older.StatusStart = time.Unix(1, 0).UTC()
	printed := printed{}
	for _, step := range []struct {
		next   string
		line   view.Summary
		wanted bool
		news   bool
	}{
		{"not wanted yet", line, false, false},
		{"wanted now, and as it was", line, true, true},
		{"as it was", line, true, false},
		{"another count", o, true, true},
		{"another time", older, true, true},
		{"not wanted any more", older, false, false},
		{"wanted again, and as it was", older, true, true},
	} {
		assert.Equal(t, step.news, printed.changed(step.line, step.wanted), step.next)
	}
}
