package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// With the webhook down, nobody but capture sees an edit right before a deletion.
func TestEditsOfDeletedNodesAreRecordedByACaptureThatGetsSIGTERM(t *testing.T) {
	p := captureProxy(t)
	all := recordedNodes(t, "ends", 40, ordinary)
	nodekeep.WithoutWebhook(t, func() {
		reported := make(chan struct{})
		p.Break(proxy.Report(proxy.RecordWrites, func(*http.Request) { <-reported })) // so that every record waits
		harness.Parallel(all.names, 4, func(name string) { nodekeep.Label(t, name, map[string]string{"edit": name}) })
		deleteAll(t, all.names)
		left, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		observed := func() bool { return captureSeries(t, "nodekeep_capture_nodes") == float64(len(left.Items)) }
		harness.Eventually(t, observed, harness.Settles, 10*time.Millisecond)
		go func() {
			time.Sleep(time.Second) // capture has received SIGTERM by then; if it has not, the test shows less
			close(reported)
		}()
		require.NoError(t, nodekeep.StopCapture())
		for _, name := range all.names {
			record, found := nodekeep.Record(t, name)
			require.True(t, found)
			assert.Equal(t, name, record.Items()["edit"], "the record of %s", name)
			assert.False(t, record.DeletedAt.IsZero(), "the record of %s", name)
		}
	})
	p.Break(nil)
	require.NoError(t, nodekeep.StartCapture(t.Context()))
}
