package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"nodekeep.dev/nodekeep/serve"
)

// portEvery is how often a process looks whether the port of /metrics is its own.
const portEvery = time.Second

// serveMetrics serves the registry of a process at /metrics: to everybody, or over TLS to those who may get it. A scrape reads all series, so few run
// at one time.
//
// On the host network, several replicas on one Node share one port. A replica waits until the port is free, and does its work without it. If
// another replica on its Node leads, it leaves the port to that one. The rules of the alerts look for the leader.
func (p *process) serveMetrics(ctx context.Context) error {
	address := p.options.metricsAddr
	if address == "0" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	handler, secure := http.Handler(mux), (*tls.Config)(nil)
	if p.options.metricsSecure {
		var err error
		if secure, err = ownCertificate(); err != nil {
			return err
		}
		handler = newMetricsGuard(p.client, p.logger, mux)
	}
	handler = serve.NewSlots().Handler(handler)
	for logged := false; ctx.Err() == nil; {
		err := p.untilYielded(ctx, func(ctx context.Context) error { return p.serveHTTP(ctx, address, handler, secure, 0) })
		if errors.Is(err, syscall.EADDRINUSE) && !logged {
			p.logger.Warn("another process of this host has the address of /metrics: this one goes on, and serves /metrics once the address is free", "error", err)
			logged = true
		} else if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(portEvery):
		}
	}
	return nil
}

// untilYielded calls do unless another process of this host leads, and ends it once one does.
func (p *process) untilYielded(ctx context.Context, fn func(context.Context) error) error {
	if p.yields.Load() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for ticker := time.NewTicker(portEvery); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				if p.yields.Load() {
					cancel()
				}
			}
		}
	}()
	return fn(ctx)
}
