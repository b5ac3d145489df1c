package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestARequestLastsAsLongAsTheAPIServerSaysThatItWaits(t *testing.T) {
	const zero = -1
	for name, c := range map[string]struct {
		url  string
		want time.Duration
	}{
		"what is shipped":        {"/deletion?timeout=1s", time.Second},
		"less than a second":     {"/deletion?timeout=999.5ms", 999500 * time.Microsecond},
		"next to something else": {"/deletion?trace=1&timeout=30s", 30 * time.Second},
		"longer than it can":     {"/deletion?timeout=1h", 30 * time.Second},
		"nothing is said":        {"/deletion", zero},
		"nothing at all":         {"/deletion?timeout=", zero},
		"no time":                {"/deletion?timeout=soon", zero},
		"zero":                   {"/deletion?timeout=0s", zero},
		"less than nothing":      {"/deletion?timeout=-1s", zero},
		"a number":               {"/deletion?timeout=1", zero},
		"more than there is":     {"/deletion?timeout=9999999999999s", zero},
		"a query that is none":   {"/deletion?timeout=%zz", zero},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := time.Duration(zero)
				hook := patience(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
