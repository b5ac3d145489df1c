package chart

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestTheNotesNameThePodsThatUseTheHostNetwork(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		says string // empty: nothing about the host network
	}{
		"the defaults":             {says: "\n\nThe Pods of capture and the Job of helm uninstall use the host network."},
		"all of them":              {set("webhook.hostNetwork=true", "webhook.ports.webhook=9643"), "The Pods of webhook and capture and the Job of helm uninstall use the host network."},
		"the webhook alone":        {set("webhook.hostNetwork=true", "webhook.ports.webhook=9643", "capture.hostNetwork=false"), "The Pods of webhook use the host network."},
		"none on the host network": {args: set("capture.hostNetwork=false")},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := harness.RunHelm(t.Context(), append([]string{"install", "noted", harness.Chart(), "--namespace", "noted", "--dry-run=client"}, row.args...)...)
			require.NoError(t, err)
			notes := string(out)
			assert.NotContains(t, notes, "EMERGENCY", "nothing is known of the cluster")
			if row.says == "" {
				assert.NotContains(t, notes, "use the host network.")
				return
			}
			assert.Contains(t, notes, row.says)
		})
	}
}
