package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProfilesAreOffUnlessAnAddressIsGiven(t *testing.T) {
	for process, o := range map[string]interface{ addTo(*pflag.FlagSet) }{"webhook": &webhookOptions{}, "capture": &captureOptions{}} {
		t.Run(process, func(t *testing.T) {
			flags := pflag.NewFlagSet(process, pflag.ContinueOnError)
			o.addTo(flags)
			flag := flags.Lookup("pprof-bind-address")
			assert.Equal(t, "0", flag.DefValue)
			assert.Contains(t, flag.Usage, "must not be exposed")

			status, _ := get("http://" + runs(t, process).metrics + "/debug/pprof/heap")
			assert.Equal(t, http.StatusNotFound, status, "they must not be where the metrics are")
		})
	}
	assert.NoError(t, (&process{options: &commonOptions{pprofAddr: "0"}}).serveProfiles(t.Context()), "no listener, and no error")
}

func TestProfilesAreServedOnAListenerOfTheirOwn(t *testing.T) {
	for _, process := range []string{"webhook", "capture"} {
		t.Run(process, func(t *testing.T) {
			address := freeAddress(t)
			r := runs(t, process, "--pprof-bind-address", address)
			require.Eventually(t, func() bool { status, _ := get("http://" + address + "/debug/pprof/"); return status == http.StatusOK }, 3*time.Minute, 20*time.Millisecond)
			for path, want := range map[string]int{
				"/debug/pprof/heap": http.StatusOK, "/debug/pprof/goroutine?debug=1": http.StatusOK, "/debug/pprof/cmdline": http.StatusOK,
				"/debug/pprof/profile?seconds=1": http.StatusOK, "/debug/pprof/symbol": http.StatusOK, "/debug/pprof/trace?seconds=0.1": http.StatusOK,
				"/debug/pprof/nothing": http.StatusNotFound, "/metrics": http.StatusNotFound, "/": http.StatusNotFound,
			} {
				status, body := get("http://" + address + path)
				assert.Equal(t, want, status, path)
				assert.NotEmpty(t, body, path)
			}
			status, _ := get("http://" + r.metrics + "/debug/pprof/heap")
			assert.Equal(t, http.StatusNotFound, status, "they must not be where the metrics are")
		})
	}
}
