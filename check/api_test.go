package check_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

func discarded() *log.Logger { return log.New(io.Discard, "", 0) }

const worker = "system:serviceaccount:nodekeep-checks:nodekeep-check"

// reviewer answers SelfSubjectReviews as an API server does, that takes the client with the token for an account.
func reviewer(token, account string) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		var asked struct{ APIVersion, Kind string }
		if request.Method != http.MethodPost || request.URL.Path != "/apis/authentication.k8s.io/v1/selfsubjectreviews" ||
			json.NewDecoder(request.Body).Decode(&asked) != nil || asked.Kind != "SelfSubjectReview" || asked.APIVersion != "authentication.k8s.io/v1" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if request.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"status":{"userInfo":{"username":%q,"groups":["system:authenticated"]}}}`, account)
	}
}

// podOf returns a Pod with these files for its account.
func podOf(t *testing.T, server string, files map[string]string) check.Pod {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600))
	}
	return check.Pod{APIServer: strings.TrimPrefix(server, "https://"), Credentials: directory}
}

func TestTheAPIServerIsAskedForTheAccount(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	certificate, foreignCertificate := ca.issue(t, nil), foreign.issue(t, nil)
	files := func(changes ...string) map[string]string {
		all := map[string]string{"token": "secret-token\n", "ca.crt": ca.pem, "namespace": "nodekeep-checks"}
		for i := 0; i < len(changes); i += 2 {
			if all[changes[i]] = changes[i+1]; changes[i+1] == "" {
				delete(all, changes[i])
			}
		}
		return all
	}
	serve := func(handler http.HandlerFunc) string { return httpServer(t, &certificate, handler) }
	text := func(text string) string {
		return serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	for name, test := range map[string]struct {
		server  string
		files   map[string]string
		reason  verify.Reason
		message string
	}{
		"the worker's account passes":        {serve(reviewer("secret-token", worker)), files(), "", ""},
		"another account":                    {serve(reviewer("secret-token", "system:anonymous")), files(), verify.ReasonWrongAccount, `takes the worker for "system:anonymous", must be "` + worker + `"`},
		"the account in another namespace":   {serve(reviewer("secret-token", worker)), files("namespace", "other"), verify.ReasonWrongAccount, "system:serviceaccount:other:nodekeep-check"},
		"an account with a name without end": {serve(reviewer("secret-token", strings.Repeat("x", 50000))), files(), verify.ReasonWrongAccount, "xxx"},
		"a token that is not accepted":       {serve(reviewer("other-token", worker)), files(), verify.ReasonUnauthorized, "401"},
		"an account that may not ask":        {serve(status(403)), files(), verify.ReasonUnauthorized, "403"},
		"an API server that fails":           {serve(status(500)), files(), verify.ReasonWrongStatus, "500"},
		"a redirect":                         {serve(redirectTo("https://example.com")), files(), verify.ReasonWrongStatus, "302"},
		"an answer that is no JSON":          {text("<html>"), files(), verify.ReasonBadAnswer, "no SelfSubjectReview"},
		"an answer of another kind":          {text(`{"kind":"Status"}`), files(), verify.ReasonBadAnswer, "no SelfSubjectReview"},
		"an answer without an account":       {text(`{"kind":"SelfSubjectReview"}`), files(), verify.ReasonWrongAccount, `""`},
		"an answer without end":              {serve(endlessBody), files(), verify.ReasonTooLarge, "too large"},
		"an answer that comes byte by byte":  {serve(drip), files(), verify.ReasonTimeout, "no answer in time"},
		"an answer that ends early":          {serve(lieAboutLength), files(), verify.ReasonReset, ""},
		"a server with another authority":    {httpServer(t, &foreignCertificate, reviewer("secret-token", worker)), files(), verify.ReasonCertificate, "unknown authority"},
		"a server that is mute":              {tcpServer(t, func(net.Conn) {}), files(), verify.ReasonTimeout, "no answer in time"},
		"a port that is closed":              {closedPort(t), files(), verify.ReasonRefused, "connection refused"},
		"no token":                           {serve(reviewer("secret-token", worker)), files("token", ""), verify.ReasonNoToken, "token: no such file"},
		"an empty token":                     {serve(reviewer("secret-token", worker)), files("token", "\n"), verify.ReasonNoToken, "is empty"},
		"no CA":                              {serve(reviewer("secret-token", worker)), files("ca.crt", ""), verify.ReasonNoToken, "ca.crt: no such file"},
		"a CA that is none":                  {serve(reviewer("secret-token", worker)), files("ca.crt", "none"), verify.ReasonError, "no certificate in PEM"},
		"no namespace":                       {serve(reviewer("secret-token", worker)), files("namespace", ""), verify.ReasonNoToken, "namespace: no such file"},
		"a token that can be in no header":   {serve(reviewer("secret-token", worker)), files("token", "a\x00b"), verify.ReasonWrongStatus, ""},
		"a process outside of a cluster":     {"", files(), verify.ReasonNoToken, "KUBERNETES_SERVICE_HOST is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := ask(t, podOf(t, test.server, test.files), test.reason, verify.Check{API: &verify.API{}}, verify.Task{})
			assert.Contains(t, result.Message, test.message)
			assert.NotContains(t, result.Message, "secret-token")
		})
	}
}

func drip(w http.ResponseWriter, request *http.Request) {
	w.WriteHeader(http.StatusCreated)
	for request.Context().Err() == nil {
		_, _ = io.WriteString(w, " ")
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
	}
}

func lieAboutLength(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "{")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestThisPodKnowsTheAPIServerFromItsEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		expected    string
	}{
		"IPv4":              {map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, "10.96.0.1:443"},
		"IPv6":              {map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "[fd00::1]:6443"},
		"no port":           {map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "10.96.0.1:443"},
		"outside a cluster": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := check.ThisPod(func(key string) string { return test.environment[key] })
			assert.Equal(t, test.expected, pod.APIServer)
			assert.Equal(t, "/var/run/secrets/kubernetes.io/serviceaccount", pod.Credentials)
		})
	}
}
