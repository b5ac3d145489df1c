package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/webhook"
)

func TestARequestLastsAsLongAsTheAPIServerSaysThatItWaits(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		url  string
		want time.Duration
	}{
		"what is shipped":       {"/capture?timeout=1s", time.Second},
		"less than a second":    {"/capture?timeout=999.5ms", 999500 * time.Microsecond},
		"beside something else": {"/capture?trace=1&timeout=30s", 30 * time.Second},
		"longer than it can":    {"/capture?timeout=1h", 30 * time.Second},
		"nothing is said":       {"/capture", none},
		"nothing at all":        {"/capture?timeout=", none},
		"no time":               {"/capture?timeout=soon", none},
		"zero":                  {"/capture?timeout=0s", none},
		"less than nothing":     {"/capture?timeout=-1s", none},
		"a number":              {"/capture?timeout=1", none},
		"more than there is":    {"/capture?timeout=9999999999999s", none},
		"a query that is none":  {"/capture?timeout=%zz", none},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := time.Duration(none)
				hook := webhook.Patience(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if deadline, ok := r.Context().Deadline(); ok {
						got = time.Until(deadline)
					}
				}))
				hook.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, c.url, http.NoBody))
				assert.Equal(t, c.want, got)
			})
		})
	}
}
