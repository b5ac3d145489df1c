package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
)

// anonymous returns a client without identity, at the address of a Pod. It trusts the API server and the webhook.
func anonymous(t *testing.T) *rest.Config {
	t.Helper()
	_, authorities := webhook(t)
	config := rest.AnonymousClientConfig(nodekeep.Cluster.Admin())
	config.CAData = slices.Concat(config.CAData, []byte("\n"), authorities)
	config.Dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).DialContext
	return config
}

// podsMoves returns those of a Pod that has no identity, and reaches every port.
func (w *world) podsMoves(stamp string) []move {
	review := func(d dice, operation, name, uid, kind string) request {
		return forgedReview(d, stamp+pick(d, "/restore", "/restore-protected", "/deletion"), operation, name, uid, kind)
	}
	ports := []string{nodekeep.MetricsURL("webhook"), nodekeep.MetricsURL("capture"), nodekeep.MetricsURL("verify"), nodekeep.ReadyURL("webhook"), nodekeep.ReadyURL("capture"), nodekeep.ReadyURL("verify")}
	return []move{
		{"reviews of the registration of any Node", func(d dice) request { return review(d, "CREATE", pick(d, d.foreign(), evil), "", "Node") }},
		{"reviews of the deletion of Nodes that live, with their UID", func(d dice) request {
			name := pick(d, harness.Names("open", open)...)
			return review(d, "DELETE", name, w.uids[name], "Node")
		}},
		{"reviews of other deletions", func(d dice) request { return review(d, "DELETE", d.foreign(), d.text(), pick(d, "Node", "Pod", "")) }},
		{"what is no review", func(d dice) request {
			body := pick(d, []byte{}, []byte("{"), bytes.Repeat([]byte("["), 1+d.IntN(20_000)), []byte("{\"request\":{\"object\":{\"metadata\":{\"name\":\"a\xff\"}}}}"),
				[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), []byte(strings.Repeat(`{"a":`, 2000)+"1"+strings.Repeat("}", 2000)), bytes.Repeat([]byte("x"), d.IntN(1<<18)))
			return request{method: pick(d, http.MethodPost, http.MethodPost, http.MethodGet, http.MethodPut, "INVENTED"), host: stamp, path: "/" + pick(d, "restore", "deletion", "", "metrics", "../"+d.text()), body: body}
		}},
		{"requests to the ports for metrics and probes", func(d dice) request {
			return request{method: pick(d, http.MethodGet, http.MethodGet, http.MethodPost, http.MethodDelete), host: pick(d, ports...), path: pick(d, "", "", "?"+d.text(), "/"+d.text())}
		}},
		{"requests to the API server", func(d dice) request {
			return pick(d, patch(nodePath(d.foreign()), object{"metadata": object{"labels": d.labels()}}), post(nodes, d.node(d.foreign())), w.configMaps(d, release), get(release + "/secrets")[0],
				post(checks+"/pods", pod("nodekeep-checks", "check-"+d.text())))
		}},
	}
}

// forgedReview is sent by a client that is not the API server.
func forgedReview(d dice, to, operation, name, uid, kind string) request {
	forged := fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d","labels":{%q:"","dedicated":"attacker"}},"spec":{"taints":[{"key":"attacker","effect":"NoExecute"}]},"status":{"nodeInfo":{"systemUUID":%q}}}`,
		name, uid, d.Uint32(), harness.Worker, d.machine())
	field := map[string]string{"CREATE": "object", "DELETE": "oldObject"}[operation]
	body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":%q,"kind":{"group":"","version":"v1","kind":%q},"resource":{"group":"","version":"v1","resource":"nodes"},"name":%q,"userInfo":{"username":%q,"groups":["system:masters","system:nodes"]},%q:%s}}`,
		operation, kind, name, pick(d, "system:admin", "system:node:"+name), field, forged)
	return request{method: http.MethodPost, host: to, path: "?timeout=1s", body: []byte(body)}
}

// reads shows what docs/security.md says of this attacker: it can read what is recorded for any name, unless callers are limited.
func (a *attacker) reads(t *testing.T, stamp string) {
	t.Helper()
	status, body, err := forgedReview(dice{rand.New(rand.NewPCG(1, 1))}, stamp+"/restore", "CREATE", harness.Names("open", open)[0], "", "Node").send(t.Context(), a.client, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	var answer admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(body, &answer))
	require.NotNil(t, answer.Response)
	assert.Contains(t, string(answer.Response.Patch), "accelerator")
}

// webhook returns where the API server sends reviews of registrations, and by which authorities it knows that server.
func webhook(t *testing.T) (url string, authorities []byte) {
	t.Helper()
	configuration, err := nodekeep.Admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	item := configuration.Webhooks[0].ClientConfig
	require.NotNil(t, item.URL)
	return *item.URL, item.CABundle
}
