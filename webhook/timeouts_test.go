package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The API server's client keeps idle connections for 90 s and does not try a call again whose connection was closed under it.
func TestIdleConnectionsOutliveTheAPIServers(t *testing.T) {
	assert.Greater(t, idleTimeout, 90*time.Second)
}
