package faults

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fake is a server in the webhook's place, with the webhook's own certificate, so that the API server believes it.
type fake struct {
	address string
	reached atomic.Int64
}

// startFake serves with a handler or, where there is none, deals with bare connections.
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
	require.Eventually(t, func() bool { called(t); return f.reached.Load() > 0 }, settles, 10*time.Millisecond)
}

// webhookCertificate is the one that the installed webhook serves.
func webhookCertificate(t testing.TB) *tls.Certificate {
	t.Helper()
	secret := webhookSecret(t)
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	return &certificate
}

// webhookClient believes the certificate of the installed webhook.
func webhookClient(t testing.TB) *http.Client {
	t.Helper()
	creation, _ := clientConfigs(t)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(creation.CABundle))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: settles}
}

type brokenWebhook struct {
	name       string
	connection func(net.Conn)
	handler    http.HandlerFunc
	want       map[string]string // what its Nodes carry; by default also what must wait for capture
	restores   bool              // it may be in time
}

// brokenWebhooks are the ways in which a webhook can be broken while something still listens at its address.
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
