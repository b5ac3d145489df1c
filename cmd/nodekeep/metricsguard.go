package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/flowcontrol"
)

// How many callers are checked per second, so that no client can make us flood the API server. One check may take callerTimeout. Callers beyond the
// rate wait. [serve.Slots] runs one request of an address at a time. So a flood of one address delays another by one check.
const (
	callersPerSecond = 10
	callersAtOnce    = 20
	callerTimeout    = 5 * time.Second
)

// metricsGuard admits callers whose bearer token may get the path, by the API server's answer. The API server protects its own /metrics in the same
// way (nonResourceURLs in a ClusterRole).
type metricsGuard struct {
	client  kubernetes.Interface
	limiter flowcontrol.RateLimiter
	logger  *slog.Logger
	next    http.Handler
}

func newMetricsGuard(client kubernetes.Interface, logger *slog.Logger, next http.Handler) *metricsGuard {
	return &metricsGuard{client: client, limiter: flowcontrol.NewTokenBucketRateLimiter(callersPerSecond, callersAtOnce), logger: logger, next: next}
}

func (g *metricsGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !given || token == "" {
		unauthorized(w)
		return
	}
	if g.limiter.Wait(r.Context()) != nil {
		return // the caller has left
	}
	ctx, cancel := context.WithTimeout(r.Context(), callerTimeout)
	defer cancel()
	caller, err := g.callerOf(ctx, token)
	switch {
	case err != nil:
		g.cannotTell(w, err)
		return
	case !caller.Authenticated:
		unauthorized(w)
		return
	}
	switch allowed, err := g.mayGet(ctx, caller.User, r.URL.Path); {
	case err != nil:
		g.cannotTell(w, err)
	case !allowed:
		http.Error(w, fmt.Sprintf("%s may not get %s: grant it nonResourceURLs in a ClusterRole", caller.User.Username, r.URL.Path), http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, r)
	}
}

func (g *metricsGuard) callerOf(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, fmt.Errorf("review token: %w", err)
	}
	return review.Status, nil
}

func (g *metricsGuard) mayGet(ctx context.Context, user authenticationv1.UserInfo, path string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	return review.Status.Allowed, nil
}

func (g *metricsGuard) cannotTell(w http.ResponseWriter, err error) {
	g.logger.Error("caller of the metrics cannot be looked at; the ServiceAccount needs the ClusterRole system:auth-delegator", "error", err)
	http.Error(w, "the API server does not say who you are", http.StatusInternalServerError)
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
}

// ownCertificate is for listeners whose callers do not know the certificate beforehand. It keeps tokens from being read on the way, and proves
// nothing else.
func ownCertificate() (*tls.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, nil
}
