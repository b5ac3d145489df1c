package main

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"
)

// longestProfile is longer than that of go tool pprof, 30 s: net/http/pprof refuses what would not end in time.
const longestProfile = time.Minute

// serveProfiles serves profiles of this process, if an address is given. They show what is in memory, so they have a listener of their own. The
// import also registers them on http.DefaultServeMux, which nothing here serves.
func (p *process) serveProfiles(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // heap, goroutine and the others by name
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // go tool pprof asks by POST
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return p.serveHTTP(ctx, p.options.pprofAddr, mux, nil, longestProfile)
}
