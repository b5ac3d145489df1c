package faults

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
	var back *corev1.Node
	var made calls
	for range attempts {
		before, began := webhookCalls(t), time.Now()
		deleteNode(t, name)
		back = register(t, name)
		took := time.Since(began)
		made = webhookCalls(t).since(before)
		t.Logf("%s, in %s", made, round(took))
		if took < webhookTimeout { // else the API server may have given up on a call
			break
		}
	}
	assert.True(t, hasAll(back.Labels, ordinary), "restored in the CREATE")
	assert.False(t, gated(back))
	made.served(t, &load{})
}
