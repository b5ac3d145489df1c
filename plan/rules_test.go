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
	ready := &observe.Node{Reported: observe.Reported{Ready: now.Add(-time.Minute).Unix()}}
	until := func(at time.Time) map[string]record.Derived { return map[string]record.Derived{"tier": {Until: at}} }

	assert.Equal(t, classify.PluginGrace-time.Minute, settlesIn(classify.Result{Unknown: true}, ready, now))
	assert.Equal(t, time.Minute, settlesIn(classify.Result{Unknown: true, Labels: until(now.Add(time.Minute))}, ready, now), "the sooner of both")
	assert.Zero(t, settlesIn(classify.Result{Unknown: true}, notReady, now), "a Node that is not ready is observed when it is")
	assert.Zero(t, settlesIn(classify.Result{Labels: until(now.Add(-time.Minute))}, ready, now), "what is over is not asked about again")
}
