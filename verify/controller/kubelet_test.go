package controller

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// The controller may lack the right to read logs, or the API server may be busy for as long as it likes.
func TestWhileNoLogCanBeReadADeadlineStillReleasesTheNode(t *testing.T) {
	b := newBed(t)
	b.use(func(profile *verify.Profile) {
		profile.Checks = append(profile.Checks, verify.Check{Name: "kubelet", Kubelet: &verify.Kubelet{}})
		profile.Deadline, profile.OnTimeout = "10m", verify.Release
	})
	var reads atomic.Int32
	b.reacts("get", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "log" {
			return false, nil, nil
		}
		reads.Add(1)
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "worker", errors.New("cannot get resource"))
	})
	b.register("n1", passes)
	_, stop := b.process()
	defer stop()
	b.waitFor("the log must be read again", func() bool { return reads.Load() > 2 })
	assert.NotEmpty(t, b.node("n1").Spec.Taints)
	assert.Zero(t, b.progress("n1").Attempts, "it is no fault of the Node")

	b.pass(11 * time.Minute)
	b.waitFor("the Node must be released", func() bool { return len(b.node("n1").Spec.Taints) == 1 })
	assert.Equal(t, verify.VerdictReleased, b.progress("n1").Last.Result)
}

func TestWhatAnAnswerToAReadOfALogSaysOfTheNode(t *testing.T) {
	kubelets := func(code int) error { // as the API server hands it on, see GenericHttpResponseChecker in k8s.io/apiserver
		return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{Resource: "pods/log"}, "worker", "", 0, false)
	}
	pods := schema.GroupResource{Resource: "pods"}
	servers := func(code int) error {
		return apierrors.NewGenericServerResponse(code, "get", pods, "worker", "", 0, true)
	}
	internal := func(text string) error { return apierrors.NewInternalError(errors.New(text)) }
	for name, c := range map[string]struct {
		err     error
		reason  verify.Reason
		servers bool // it says nothing of the Node
	}{
		"the log":                              {},
		"the kubelet does not know the caller": {err: kubelets(http.StatusUnauthorized), reason: verify.ReasonNotServing},
		"the kubelet forbids it":               {err: kubelets(http.StatusForbidden), reason: verify.ReasonNotServing},
		"the kubelet has no such Pod":          {err: kubelets(http.StatusNotFound), reason: verify.ReasonNotServing},
		"the kubelet is busy":                  {err: kubelets(http.StatusTooManyRequests), reason: verify.ReasonNotServing},
		"the kubelet does not serve":           {err: kubelets(http.StatusServiceUnavailable), reason: verify.ReasonNotServing},
		"the kubelet fails":                    {err: internal("disk is full"), reason: verify.ReasonNotServing},
		"nobody listens":                       {err: internal("dial tcp 10.0.0.1:10250: connect: connection refused"), reason: verify.ReasonRefused},
		"a certificate that nobody trusts":     {err: internal("tls: failed to verify certificate: x509: unknown authority"), reason: verify.ReasonCertificate},
		"no route":                             {err: internal("dial tcp 10.0.0.1:10250: connect: no route to host"), reason: verify.ReasonUnreachable},
		"no answer":                            {err: context.DeadlineExceeded, reason: verify.ReasonTimeout},
		"the API server is away":               {err: errors.New("connection refused"), servers: true},
		"the API server does not know us":      {err: apierrors.NewUnauthorized("Unauthorized"), servers: true},
		"we lack the right":                    {err: apierrors.NewForbidden(pods, "worker", errors.New("cannot get resource")), servers: true},
		"the Pod was deleted":                  {err: apierrors.NewNotFound(pods, "worker"), servers: true},
		"the API server is busy":               {err: servers(http.StatusTooManyRequests), servers: true},
		"the API server does not serve":        {err: servers(http.StatusServiceUnavailable), servers: true},
	} {
		t.Run(name, func(t *testing.T) {
			log, ofNode := logOf(c.err)
			assert.Equal(t, !c.servers, ofNode)
			assert.Equal(t, ofNode, log.Asked)
			assert.Equal(t, c.reason, log.Reason)
		})
	}
}
