package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Fault answers a request in the API server's place. It may pass the request to the API server, as often as it likes.
type Fault func(w http.ResponseWriter, r *http.Request, apiServer http.Handler)

// Proxy forwards requests to the API server.
type Proxy struct {
	server *httptest.Server
	fault  atomic.Pointer[Fault]
}

// Start listens; upstream is any config of a client of the API server.
func Start(upstream *rest.Config) (*Proxy, error) {
	target, err := url.Parse(upstream.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(upstream.CAData)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}, MaxIdleConnsPerHost: 100},
		FlushInterval: -1, // a watch's events are not to wait
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p := &Proxy{}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := p.fault.Load(); fault != nil {
			body, _ := io.ReadAll(r.Body) // only then the server notices that a caller has hung up
			r.Body = io.NopCloser(bytes.NewReader(body))
			(*fault)(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	p.server.Config.ErrorLog = forward.ErrorLog
	p.server.StartTLS()
	return p, nil
}

// Config returns a config of the same identity that goes through the proxy.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	proxied := rest.CopyConfig(config)
	proxied.Host = p.server.URL
	proxied.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return proxied
}

// Break has every request answered by the fault, from now on; nil mends the proxy.
func (p *Proxy) Break(fault Fault) {
	if fault == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&fault)
}

// CutConnections ends everything that is on its way, watches above all.
func (p *Proxy) CutConnections() { p.server.CloseClientConnections() }

// Stop ends the proxy.
func (p *Proxy) Stop() {
	p.server.CloseClientConnections()
	p.server.Close()
}
