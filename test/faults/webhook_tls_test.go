package faults

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheWebhookSpeaksTLS13OnlyAndTheAPIServerCallsIt(t *testing.T) {
	const name = "tls-13"
	address := webhookAddress(t)
	speak := func(version uint16) (*tls.Conn, error) {
		roots := webhookClient(t).Transport.(*http.Transport).TLSClientConfig.RootCAs
		return tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
	}
	_, err := speak(tls.VersionTLS12)
	require.ErrorContains(t, err, "protocol version")
	t.Logf("over TLS 1.2: %v", err)
	connection, err := speak(tls.VersionTLS13)
	require.NoError(t, err)
	_ = connection.Close()

	remembered(t, name, ordinary)
	before := webhookCalls(t)
	deleteNode(t, name)
	back := register(t, name)
	assert.True(t, hasAll(back.Labels, ordinary), "restored in the CREATE")
	assert.False(t, gated(back))
	made := webhookCalls(t).since(before)
	t.Log(made)
	made.served(t)
}
