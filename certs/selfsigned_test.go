package certs

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/logged"
)

// source is what a webhook server needs of either source.
type source interface {
	Run(context.Context)
	Loaded() error
	NotAfter() time.Time
}

var _, _ source = (*SelfSigned)(nil), (*Dir)(nil)

func TestRunWaitsForTheSecretAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		log := &logged.Buffer{}
		s := NewSelfSigned(c.client(nil), Options{Logger: slog.New(slog.NewJSONHandler(log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()

		time.Sleep(10 * time.Minute)
		require.ErrorContains(t, s.Loaded(), "the manifests ship it empty")
		tries := strings.Count(log.String(), "certificate sync failed")
		assert.InDelta(t, 15, tries, 2, "six in the first minute, then one a minute")

		c.add(emptySecret())
		time.Sleep(2 * time.Minute)
		require.NoError(t, s.Loaded())
		failed := strings.Count(log.String(), "certificate sync failed")

		c.setData(map[string][]byte{"ca.crt": []byte("garbage"), "tls.key": []byte("garbage")})
		time.Sleep(10 * time.Minute)
		require.NoError(t, s.Loaded())
		assert.Equal(t, 1, strings.Count(log.String(), "secret holds data that cannot be used"))
		assert.Equal(t, failed, strings.Count(log.String(), "certificate sync failed"), "no failure since the Secret is there")

		cancel()
		<-ended
		requireNoKeys(t, log.String(), c)
	})
}

// requireNoKeys fails when the log holds anything of a private key of the Secret.
func requireNoKeys(t *testing.T, log string, c *cluster) {
	t.Helper()
	require.NotEmpty(t, log)
	assert.NotContains(t, log, "PRIVATE KEY")
	for _, key := range []string{"ca.key", "tls.key"} {
		for _, line := range strings.Split(string(c.secret().Data[key]), "\n") {
			if len(line) > 8 && !strings.HasPrefix(line, "-----") {
				assert.NotContains(t, log, line)
			}
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(log), "\n") {
		var entry struct{ Msg string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		assert.Equal(t, strings.ToLower(entry.Msg), entry.Msg)
	}
}
