package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettingsAreThoseOfThePolicyInTheOrderOfTheFile(t *testing.T) {
	assert.Equal(t, []Setting{
		{"labels.onConflict", "keepNode"}, {"labels.protected", "deferred"}, {"machine.onMismatch", "restore"}, {"retention", "720h"},
	}, Default().Settings())

	loaded, err := Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {onConflict: restoreStored, protected: never}\nmachine: {onMismatch: quarantine}\nretention: 0\n"), DefaultGate)
	require.NoError(t, err)
	assert.Equal(t, []Setting{
		{"labels.onConflict", "restoreStored"}, {"labels.protected", "never"}, {"machine.onMismatch", "quarantine"}, {"retention", "0 (for ever)"},
	}, loaded.Settings())
}

func TestRetentionIsWrittenAsPeopleWriteIt(t *testing.T) {
	for want, retention := range map[string]time.Duration{
		"720h": 720 * time.Hour, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "1h0m30s": time.Hour + 30*time.Second, "20h": 20 * time.Hour, "0 (for ever)": 0,
	} {
		assert.Equal(t, want, written(retention))
	}
}
