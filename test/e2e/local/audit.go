package local

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// auditPolicy notes every CREATE of a Node, with what was sent and what was stored.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create]
  resources: [{group: "", resources: [nodes]}]
- level: None
`

// auditLog is what the API server notes of CREATEs of Nodes.
type auditLog struct{ path string }

// auditing returns the log and the arguments with which an API server keeps it.
func auditing(t *testing.T) (auditLog, []string) {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	return auditLog{path: log}, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking"}
}

// registration is one CREATE of a Node: what the kubelet sent, and what the API server answered.
type registration struct {
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Name string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time       `json:"requestReceivedTimestamp"`
	Answered time.Time       `json:"stageTimestamp"`
	Sent     corev1.Node     `json:"requestObject"`
	Response json.RawMessage `json:"responseObject"`
}

// stored returns the Node of a CREATE that was accepted.
func (r registration) stored(t *testing.T) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	require.Equal(t, 201, r.ResponseStatus.Code, "%s", r.Response)
	require.NoError(t, json.Unmarshal(r.Response, node))
	return node
}

// registrations returns the registrations of a Node, the oldest first.
func (l auditLog) registrations(t *testing.T, node string) (list []registration) {
	t.Helper()
	content, err := os.ReadFile(l.path)
	require.NoError(t, err)
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the API server is writing it
		}
		var r registration
		require.NoError(t, json.Unmarshal(line, &r))
		if r.ObjectRef.Name == node && r.User.Username == "system:node:"+node {
			list = append(list, r)
		}
	}
	return list
}

// next waits for the registration of a Node that comes after so many.
func (l auditLog) next(t *testing.T, node string, offset int) registration {
	t.Helper()
	var list []registration
	harness.Eventually(t, func() bool {
		list = l.registrations(t, node)
		return len(list) > offset
	}, startTimeout, 20*time.Millisecond, "the kubelet of %s must register", node)
	return list[offset]
}
