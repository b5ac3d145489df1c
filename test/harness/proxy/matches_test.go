package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/test/harness/proxy"
)

func TestAWatchOfOneObjectIsNoWatchOfAll(t *testing.T) {
	const all = "/api/v1/namespaces/nodekeep-system/configmaps"
	for _, c := range []struct {
		name, url                     string
		watches, readsAll, watchesOne bool
	}{
		{"a list", all + "?labelSelector=nodekeep.dev%2Frecord%3Dtrue", false, true, false},
		{"a watch that is resumed", all + "?resourceVersion=5&watch=true", true, false, false},
		{"a watch that stands in for a list", all + "?sendInitialEvents=true&watch=true", true, true, false},
		{"a watch by another field", all + "?fieldSelector=metadata.namespace%3Da&watch=true", true, false, false},
		{"a list of one object", all + "?fieldSelector=metadata.name%3Da", false, false, false},
		{"a watch of one object", all + "?fieldSelector=metadata.name%3Da&resourceVersion=5&watch=true", false, false, true},
		{"a watch of one object that stands in for a list", all + "?fieldSelector=metadata.name%3Da&sendInitialEvents=true&watch=true", false, false, true},
		{"a read of one object", all + "/a", false, false, false},
		{"a watch of another resource", "/api/v1/nodes?watch=true", false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.url, http.NoBody)
			assert.Equal(t, c.watches, proxy.Watches("configmaps")(r))
			assert.Equal(t, c.readsAll, proxy.ReadsAll("configmaps")(r))
			assert.Equal(t, c.watchesOne, proxy.WatchesOne("configmaps")(r))
		})
	}
}
