package doctor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsNotKeptIsANoteByReasonAndNoFinding(t *testing.T) {
	seen := healthy(t)
	assert.Equal(t, "every label and taint of the Nodes is kept", resultOf(t, Judge(seen, nil), checkNotKept).What)

	seen.Nodes.Value.SeeNotKept("kubernetes.io/arch", "kubelet")
	seen.Nodes.Value.SeeNotKept("kubernetes.io/os", "kubelet")
	for i := range 12 {
		seen.Nodes.Value.SeeNotKept(fmt.Sprintf("example.com/%d", i), "labels.ignore: example.com/*")
	}
	assert.Equal(t, []string{
		"note: not kept (kubelet): kubernetes.io/arch, kubernetes.io/os",
		"note: not kept (labels.ignore: example.com/*): example.com/0, example.com/1, example.com/2, example.com/3, example.com/4, example.com/5, example.com/6, example.com/7, example.com/8, example.com/9 and 2 more items",
	}, notes(t, seen))
}
