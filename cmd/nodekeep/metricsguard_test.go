package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/serve"
)

func TestAFloodOfInventedTokensKeepsNoScrapeFromItsAnswerAndTheAPIServerFromAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, asked := fake.NewClientset(), 0
		client.PrependReactor("create", "tokenreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
			asked++
			review := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
			review.Status.Authenticated = review.Spec.Token == "prometheus"
			return true, review, nil
		})
		client.PrependReactor("create", "subjectaccessreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
			review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
			review.Status.Allowed = true
			return true, review, nil
		})
		metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		handler := serve.NewSlots().Handler(newMetricsGuard(client, slog.New(slog.DiscardHandler), metrics))
		call := func(address, token string) int {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
			request.RemoteAddr = address + ":1"
			request.Header.Set("Authorization", "Bearer "+token)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			return answer.Code
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() { assert.Equal(t, http.StatusUnauthorized, call("10.0.0.1", "invented")) })
		}
		time.Sleep(10 * time.Second)
		prev := time.Now()
		assert.Equal(t, http.StatusOK, call("10.0.0.2", "prometheus"))
		assert.Less(t, time.Since(prev), time.Second, "it waits for one check of the crowd")
		all.Wait()
		assert.Equal(t, 501, asked)
		assert.GreaterOrEqual(t, time.Since(began), 45*time.Second, "%d checks a second", callersPerSecond)
	})
}
