package bed

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/test/harness/proxy"
)

func TestRequestsOfNodekeepAreCountedByWhatTheyWrite(t *testing.T) {
	for name, c := range map[string]struct {
		method, url string
		want        Kind
	}{
		"a record is created":              {"POST", "/api/v1/namespaces/nodekeep-system/configmaps", RecordCreated},
		"a record is patched":              {"PATCH", "/api/v1/namespaces/nodekeep-system/configmaps/node.a?fieldManager=x", RecordChanged},
		"a record is updated":              {"PUT", "/api/v1/namespaces/nodekeep-system/configmaps/node.a", RecordChanged},
		"a record is deleted":              {"DELETE", "/api/v1/namespaces/nodekeep-system/configmaps/node.a", RecordDeleted},
		"a Node is patched":                {"PATCH", "/api/v1/nodes/a", NodeChanged},
		"a Node's status is patched":       {"PATCH", "/api/v1/nodes/a/status", NodeChanged},
		"a Node named events is patched":   {"PATCH", "/api/v1/nodes/events", NodeChanged},
		"an Event is written":              {"POST", "/apis/events.k8s.io/v1/namespaces/default/events", EventWritten},
		"an Event of the core is repeated": {"PATCH", "/api/v1/namespaces/default/events/a.1", EventWritten},
		"a Secret is updated":              {"PUT", "/api/v1/namespaces/nodekeep-system/secrets/nodekeep-webhook-tls", OtherWrite},
		"a dry run":                        {"POST", "/api/v1/nodes?dryRun=All", ""},
		"the Lease is renewed":             {"PUT", "/apis/coordination.k8s.io/v1/namespaces/nodekeep-system/leases/nodekeep-capture", ""},
		"a review of rights":               {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(c.method, c.url, nil)
			assert.True(t, proxy.Writes(request))
			assert.Equal(t, c.want, kindOf(request))
		})
	}
	assert.False(t, proxy.Writes(httptest.NewRequest(http.MethodGet, "/api/v1/nodes/a", nil)), "a Node is read")
}
