package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
)

func TestALabelThatIsBlockedIsAskedAboutWhenItsPluginHadTime(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	notReady := &observe.Node{}
	ready := &observe.Node{Reported: observe.Reported{ReadySince: now.Add(-time.Minute).Unix()}}
	listedUntil := func(instant time.Time) map[string]record.RuleLabel {
		return map[string]record.RuleLabel{"tier": {End: instant}}
	}

	assert.Equal(t, classify.PluginGrace-time.Minute, requeueAfter(classify.Result{Unknown: true}, ready, now))
	assert.Equal(t, time.Minute, requeueAfter(classify.Result{Unknown: true, Labels: listedUntil(now.Add(time.Minute))}, ready, now), "the sooner of both")
	assert.Zero(t, requeueAfter(classify.Result{Unknown: true}, notReady, now), "a Node that is not ready is observed when it is")
	assert.Zero(t, requeueAfter(classify.Result{Labels: listedUntil(now.Add(-time.Minute))}, ready, now), "what is over is not asked about again")
}
