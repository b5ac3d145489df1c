package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/verify"
)

// deny has the API server deny a kind of call, in its own words, until allow is called.
func (b *bed) deny(verb, resource, in string) (allow func()) {
	denies := true
	b.reacts(verb, resource, func(action k8stesting.Action) (bool, runtime.Object, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !denies || action.GetSubresource() != "" || in != "" && action.GetNamespace() != in {
			return false, nil, nil
		}
		name := "x"
		if create, ok := action.(k8stesting.CreateAction); ok && resource == "pods" {
			name = create.GetObject().(*corev1.Pod).Name // the API server names it in its answer
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("a policy says no"))
	})
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		denies = false
	}
}

func TestConditionEventAndMetricOfANodeThatWaitsSayTheSame(t *testing.T) {
	type denied struct{ verb, resource, in string }
	for name, test := range map[string]struct {
		profile func(*verify.Profile)
		report  string
		denied  denied
		cause   verify.Cause
		says    string // with the Node's name in place of each n
	}{
		"for a resource": {
			profile: func(p *verify.Profile) { p.Wait.Allocatable = map[string]verify.Quantity{"nvidia.com/gpu": "1"} }, report: passes, cause: verify.CauseResource,
			says: "the profile waits for a resource: the Node does not report nvidia.com/gpu, and must have 1; look at the device plugin",
		},
		"for a DaemonSet": {
			profile: func(p *verify.Profile) { p.Wait.DaemonSets = []string{"kube-system/cni"} }, report: passes, cause: verify.CauseDaemonSet,
			says: "no Pod of DaemonSet kube-system/cni is Ready on the Node; look at that Pod",
		},
		"since worker Pods are denied": {
			report: passes, denied: denied{verb: "create", resource: "pods"}, cause: verify.CauseRefused,
			says: `the controller cannot go on: create worker Pod of node "n1": pods "check-" is forbidden: a policy says no; correct what the message names`,
		},
		"since Pods cannot be listed": {
			profile: func(p *verify.Profile) { p.Wait.DaemonSets = []string{"other/cni"} }, report: passes, denied: denied{"list", "pods", "other"}, cause: verify.CauseRefused,
			says: "a policy says no; correct what the message names",
		},
		"since its change is denied": {
			report: passes, denied: denied{verb: "patch", resource: "nodes"}, cause: verify.CauseRefused,
			says: `the controller cannot go on: patch node "n1": nodes "x" is forbidden: a policy says no; correct what the message names`,
		},
		"since its report cannot be kept": {
			report: refuses, denied: denied{verb: "create", resource: "configmaps"}, cause: verify.CauseRefused, says: "a policy says no; correct what the message names",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.use(test.profile)
			b.register("n1", test.report)
			c, stop := b.process()
			defer stop()
			allow := func() {}
			if test.denied.verb != "" {
				allow = b.deny(test.denied.verb, test.denied.resource, test.denied.in)
			}
			b.waitFor("the condition must say why", func() bool {
				b.pass(time.Minute)
				c.queue.Add("n1")
				return conditionOf(b.node("n1")).Reason == string(test.cause)
			})
			out := conditionOf(b.node("n1"))
			assert.Contains(t, out.Message, test.says)
			assert.Equal(t, corev1.ConditionUnknown, out.Status)
			assert.Contains(t, b.event(VerificationWaits), "Warning VerificationWaits The Node waits to be verified: "+out.Message)
			b.waitFor("the metric must have the cause", func() bool {
				return series(t, newStandingCollector(c), "nodekeep_verify_causes", string(test.cause), "all") == 1
			})
			index := b.wroteTimes("patch nodes/status")
			for range 20 {
				b.pass(time.Second)
				c.queue.Add("n1")
				time.Sleep(20 * time.Millisecond)
			}
			assert.LessOrEqual(t, b.wroteTimes("patch nodes/status"), index+1, "the same answer is no write again")
			allow()
			if test.report == passes && test.denied.verb != "" && test.profile == nil {
				b.waitFor("it must be verified once nothing is denied", func() bool {
					return isOpen(b.node("n1")) && conditionOf(b.node("n1")).Reason == string(verify.CauseChecksPassed)
				})
			}
		})
	}
}
