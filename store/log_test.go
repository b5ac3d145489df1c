package store_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/logged"
)

func TestARecordThatCannotBeReadIsLoggedOnce(t *testing.T) {
	server := newAPI()
	var log logged.Buffer
	records, err := store.NewConfigMaps(server.client(), namespace, slog.New(slog.NewJSONHandler(&log, nil)))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go records.Run(ctx)
	require.Eventually(t, records.Synced, patience, time.Millisecond)

	awaits := func(text string) {
		require.Eventually(t, func() bool { return len(log.Lines(text)) > 0 }, patience, time.Millisecond)
	}
	good := configMapOf("node.worker-1", "worker-1")
	require.NoError(t, server.Create(configMaps, good, namespace))
	strange := configMapOf("node.worker-2", "worker-1")
	require.NoError(t, server.Create(configMaps, strange, namespace))
	garbage := configMapOf("node.worker-3", "worker-3")
	garbage.Data[store.DataKey] = "{"
	require.NoError(t, server.Create(configMaps, garbage, namespace))
	awaits("node.worker-3") // a watch that is just being renewed brings what is there, not what has come and gone
	require.NoError(t, server.Delete(configMaps, namespace, "node.worker-3"))
	last := configMapOf("node.worker-4", "worker-4")
	last.Data[store.DataKey] = `{"version": 9, "node": "worker-4"}`
	require.NoError(t, server.Create(configMaps, last, namespace))

	awaits("node.worker-4")
	assert.Equal(t, map[string]string{
		"node.worker-2": `it is the record of node "worker-1"`,
		"node.worker-3": "unexpected end of JSON input",
		"node.worker-4": "its version is 9; this nodekeep reads 1 to 2",
	}, errorsOf(t, log.String()))
}

// errorsOf returns what was logged of each ConfigMap; it fails on a second line about the same one.
func errorsOf(t *testing.T, log string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(log) {
		var entry struct{ Level, Msg, ConfigMap, Error string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		assert.Equal(t, "ERROR", entry.Level)
		assert.Equal(t, "record cannot be read; it is left as it is and nothing is restored from it", entry.Msg)
		assert.NotContains(t, found, entry.ConfigMap, "logged twice")
		found[entry.ConfigMap] = entry.Error
	}
	return found
}
