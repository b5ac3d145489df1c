package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// clientConfigs returns where the API server calls the webhook: at CREATE and at DELETE.
func clientConfigs(t testing.TB) (creation, deletion admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	client := nodekeep.Admin.AdmissionregistrationV1()
	mutating, err := client.MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, mutating.Webhooks, 1)
	hook, _ := nodekeep.DeletionHook(t)
	return mutating.Webhooks[0].ClientConfig, hook.ClientConfig
}

func setClientConfigs(t testing.TB, creation, deletion admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also at the end of a test
	client := nodekeep.Admin.AdmissionregistrationV1()
	patch := func(hook string, config admissionregistrationv1.WebhookClientConfig) []byte {
		return harness.MustJSON(t, []map[string]any{{"op": "replace", "path": hook + "/clientConfig", "value": config}})
	}
	_, onDeletion := nodekeep.DeletionHook(t)
	_, err := client.MutatingWebhookConfigurations().Patch(ctx, "nodekeep", types.JSONPatchType, patch("/webhooks/0", creation), metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = client.ValidatingWebhookConfigurations().Patch(ctx, "nodekeep", types.JSONPatchType, patch(onDeletion, deletion), metav1.PatchOptions{})
	require.NoError(t, err)
}

// endpointAt returns the same config for another address; a nil bundle leaves the one that is there.
func endpointAt(t testing.TB, config admissionregistrationv1.WebhookClientConfig, address string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	require.NotNil(t, config.URL)
	u, err := url.Parse(*config.URL)
	require.NoError(t, err)
	u.Host = address
	moved := u.String()
	config.URL = &moved
	if bundle != nil {
		config.CABundle = bundle
	}
	return config
}

// pointAt has the API server call another address with another caBundle (nil: the same one). The function that it returns
// puts back what was there.
func pointAt(t testing.TB, address string, bundle []byte) (returned func()) {
	t.Helper()
	creation, deletion := clientConfigs(t)
	setClientConfigs(t, endpointAt(t, creation, address, bundle), endpointAt(t, deletion, address, bundle))
	return func() { t.Helper(); setClientConfigs(t, creation, deletion) }
}

// shippedTimeout has the API server wait a second for both webhooks, as it does where nodekeep is installed, until the end of a test
// that is about this time.
func shippedTimeout(t testing.TB) {
	t.Helper()
	wait := func(seconds int) {
		ctx, client := context.WithoutCancel(t.Context()), nodekeep.Admin.AdmissionregistrationV1()
		patch := func(hook string) []byte {
			return fmt.Appendf(nil, `[{"op":"replace","path":"%s/timeoutSeconds","value":%d}]`, hook, seconds)
		}
		_, onDeletion := nodekeep.DeletionHook(t)
		_, err := client.MutatingWebhookConfigurations().Patch(ctx, "nodekeep", types.JSONPatchType, patch("/webhooks/0"), metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = client.ValidatingWebhookConfigurations().Patch(ctx, "nodekeep", types.JSONPatchType, patch(onDeletion), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	t.Cleanup(func() { wait(harness.Patient) })
	wait(1)
}

// webhookAddress returns where the installed webhook listens.
func webhookAddress(t testing.TB) string {
	t.Helper()
	creation, _ := clientConfigs(t)
	u, err := url.Parse(*creation.URL)
	require.NoError(t, err)
	return u.Host
}

// called reports whether the API server reaches a webhook that works: a dry-run CREATE then shows its stamp.
func called(t testing.TB) bool {
	t.Helper()
	probe := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "faults-probe"}}
	node, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	_, stamped := node.Annotations[policy.StampAnnotation]
	return stamped
}

// untilCalled waits until the API server reaches a working webhook, or does not any more, and returns how long that took.
func untilCalled(t testing.TB, reaches bool) time.Duration {
	t.Helper()
	began := time.Now()
	harness.Eventually(t, func() bool { return called(t) == reaches }, harness.Settles, 10*time.Millisecond, "that the webhook is reached must become %t", reaches)
	return round(time.Since(began))
}

// webhookBundle returns the caBundle by which the API server believes the webhook.
func webhookBundle(t testing.TB) []byte {
	t.Helper()
	creation, _ := clientConfigs(t)
	return creation.CABundle
}

// fake is a server in the webhook's place, with the webhook's own certificate, so that the API server believes it.
type fake struct {
	address string
	reached atomic.Int64
}

// startFake serves with a handler or, where there is none, handles bare connections.
func startFake(t testing.TB, certificate *tls.Certificate, connection func(net.Conn), handler http.HandlerFunc) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fake{address: listener.Addr().String()}
	if connection != nil {
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				accepted, err := listener.Accept()
				if err != nil {
					return
				}
				f.reached.Add(1)
				go connection(accepted)
			}
		}()
		return f
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.reached.Add(1)
			handler(w, r)
		}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*certificate}},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return f
}

// untilReached waits until the API server calls the fake.
func (f *fake) untilReached(t testing.TB) {
	t.Helper()
	harness.Eventually(t, func() bool { called(t); return f.reached.Load() > 0 }, harness.Settles, 10*time.Millisecond)
}

// webhookCertificate returns the one that the installed webhook serves.
func webhookCertificate(t testing.TB) *tls.Certificate {
	t.Helper()
	secret, err := nodekeep.Admin.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "nodekeep-webhook-tls", metav1.GetOptions{})
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	return &certificate
}

// webhookClient believes the certificate of the installed webhook.
func webhookClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities(webhookBundle(t))}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: harness.Settles}
}

type brokenWebhook struct {
	name       string
	connection func(net.Conn)
	handler    http.HandlerFunc
	want       map[string]string // what its Nodes carry; by default also what must wait for capture
	restores   bool              // it may be in time
}

// brokenWebhooks returns the ways in which a webhook can be broken while something still listens at its address.
func brokenWebhooks(t testing.TB, installed string) []brokenWebhook {
	slow := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "https", Host: installed}) },
		Transport: webhookClient(t).Transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	answer := func(change func(*admissionv1.AdmissionReview)) []byte {
		review := admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{Allowed: true}}
		review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
		change(&review)
		body, err := json.Marshal(review)
		require.NoError(t, err)
		return body
	}
	uidOf := func(r *http.Request) types.UID {
		var review admissionv1.AdmissionReview
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &review)
		if review.Request == nil {
			return ""
		}
		return review.Request.UID
	}
	return []brokenWebhook{
		{name: "it takes connections and never speaks", connection: func(c net.Conn) {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}},
		{name: "it takes reviews and never answers", handler: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		{name: "it answers after 900 ms", restores: true, want: ordinary, handler: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			time.Sleep(900 * time.Millisecond)
			slow.ServeHTTP(w, r)
		}},
		{name: "it panics", handler: func(http.ResponseWriter, *http.Request) { panic("no such luck") }},
		{name: "it answers 500", handler: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "internal error", http.StatusInternalServerError)
		}},
		{name: "it answers what is not JSON", handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>It works!</html>")
		}},
		{name: "it answers another review's uid", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer(func(review *admissionv1.AdmissionReview) { review.Response.UID = "another" }))
		}},
		{name: "its answer is cut off", handler: func(w http.ResponseWriter, r *http.Request) {
			body := answer(func(review *admissionv1.AdmissionReview) { review.Response.UID = uidOf(r) })
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body[:len(body)-5])
		}},
	}
}

// delayed is what no registration takes longer than, where the timeout of both webhooks is 1 s or is not waited for. A timeout costs each
// registration as much, so it is the fastest that counts: what a busy machine adds to the others is another matter.
const delayed = 5 * time.Second

func TestAWebhookThatHangsOrAnswersGarbageDelaysARegistrationByItsTimeoutAtMostAndCaptureCompletesTheNode(t *testing.T) {
	shippedTimeout(t)
	certificate := webhookCertificate(t)
	installed := webhookAddress(t)
	var healed []time.Duration
	for n, c := range brokenWebhooks(t, installed) {
		t.Run(c.name, func(t *testing.T) {
			want := protected
			if c.want != nil {
				want = c.want
			}
			nodes := recordedNodes(t, fmt.Sprintf("broken-%d", n), 3, want)
			fake := startFake(t, certificate, c.connection, c.handler)
			returned := pointAt(t, fake.address, nil)
			defer func() {
				returned()
				untilCalled(t, true)
			}()
			fake.untilReached(t)

			m := nodes.comeBack(t)

			t.Log(m)
			assert.Less(t, m.soonest, delayed)
			assert.Less(t, m.soonestDeletion, delayed)
			if !c.restores {
				assert.Zero(t, m.restored, "the webhook is broken")
			}
			began := time.Now()
			returned()
			untilCalled(t, true)
			healed = append(healed, time.Since(began))
		})
	}
	t.Logf("whole again, once the webhook answers, after %s at most", round(slices.Max(healed)))
	assert.Less(t, slices.Max(healed), harness.Settles)
}

func TestAMissingWebhookDelaysNoRegistrationAndCaptureCompletesTheNode(t *testing.T) {
	nodes := recordedNodes(t, "refused", 3, protected)
	require.NoError(t, nodekeep.StopWebhook())
	m := nodes.comeBack(t)
	assert.Zero(t, m.restored)
	for n := 1; n < attempts && m.soonest >= webhookTimeout; n++ { // a timeout would cost each of them as much, whenever it is
		m = nodes.comeBack(t)
		assert.Zero(t, m.restored)
	}
	began := time.Now()
	require.NoError(t, nodekeep.StartWebhook(t.Context()))
	t.Logf("%s; whole again %s after the start", m, round(time.Since(began)))
	assert.Less(t, m.soonest, webhookTimeout, "a refused connection is no timeout")

	recordedNodes(t, "refused-again", 3, ordinary).areRestored(t)
}

func TestAWebhookThatHasNotReadItsRecordsYetSendsReviewsBackAndLetsNoNodePassBare(t *testing.T) {
	gone, late := recordedNodes(t, "unsynced", 4, ordinary), recordedNodes(t, "unsynced-late", 4, ordinary)
	link := webhookProxy(t)
	release := make(chan struct{})
	link.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if proxy.Reads("configmaps")(r) {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		apiServer.ServeHTTP(w, r)
	})
	started := make(chan error, 1)
	go func() { started <- nodekeep.StartWebhook(t.Context()) }() // it waits until the webhook is ready
	require.Eventually(t, func() bool {
		_, body := harness.Readiness(nodekeep.ReadyURL("webhook"))
		return strings.Contains(body, "[+] certificate")
	}, harness.Settles, 10*time.Millisecond)
	status, body := harness.Readiness(nodekeep.ReadyURL("webhook"))
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "[-] records: still being read")
	response, err := webhookClient(t).Post("https://"+webhookAddress(t)+"/restore", "application/json", bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	_ = response.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.Equal(t, "0", response.Header.Get("Retry-After"))

	m := gone.comeBack(t)
	assert.Zero(t, m.restored)
	assert.Less(t, m.soonest, delayed)

	began := time.Now()
	time.AfterFunc(250*time.Millisecond, func() { close(release) })
	middle := late.comeBack(t) // sent back until the records are read
	require.NoError(t, <-started)
	t.Logf("unsynced: %s", m)
	t.Logf("while it syncs: %s; whole again %s after the records could be read", middle, round(time.Since(began)-250*time.Millisecond))
	gone.areRestored(t)
}
