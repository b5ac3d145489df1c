package check_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

func to(name, address string) verify.Check {
	return verify.Check{Name: name, TCP: new(verify.TCP(address))}
}

func refused(address string) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect to "+address, syscall.ECONNREFUSED)}
}

func connected() (net.Conn, error) {
	client, _ := net.Pipe()
	return client, nil
}

func TestAllChecksAreAskedAtOnceAndReportedInTheirOrder(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(3)
	pod := check.Pod{Dial: func(context.Context, string, string) (net.Conn, error) {
		arrived.Done()
		arrived.Wait() // for ever, if one waited for another
		return connected()
	}}
	optional := false
	second := to("second", "b:1")
	second.Required = &optional
	report := pod.Run(t.Context(), verify.Task{Timeout: "1m", Checks: []verify.Check{
		to("first", "a:1"), {Name: "smi", Container: &verify.Container{Image: "image"}}, second, to("third", "c:1"),
	}})
	names, required := []string{}, []bool{}
	for _, result := range report.Results {
		assert.Equal(t, verify.Passed, result.Outcome)
		assert.Equal(t, 1, result.Tries)
		names, required = append(names, result.Check), append(required, result.Required)
	}
	assert.Equal(t, []string{"first", "second", "third"}, names, "the container is another worker's")
	assert.Equal(t, []bool{true, false, true}, required)
	assert.False(t, report.Failed())
}

func TestACheckThatHasATimeoutOfItsOwnEndsBeforeTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		pod := check.Pod{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			if address == "late:1" && tries.Add(1) > 3 {
				return connected()
			}
			return nil, refused(address)
		}}
		short, late := to("short", "short:1"), to("late", "late:1")
		short.Timeout = "1s"
		report := pod.Run(t.Context(), verify.Task{Timeout: "1m", Checks: []verify.Check{short, late}})
		assert.Equal(t, verify.Failed, report.Results[0].Outcome)
		assert.Equal(t, verify.ReasonRefused, report.Results[0].Reason)
		assert.Equal(t, 1000, report.Results[0].Millis)
		assert.Equal(t, verify.Passed, report.Results[1].Outcome)
	})
}

func TestACheckIsRetriedUntilItPassesOrItsTimeIsOver(t *testing.T) {
	refuses := func(_ context.Context, _, address string) (net.Conn, error) { return nil, refused(address) }
	unreachable := func(context.Context, string, string) (net.Conn, error) { return nil, syscall.EHOSTUNREACH }
	lost := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	connects := func(context.Context, string, string) (net.Conn, error) { return connected() }
	type dial = func(context.Context, string, string) (net.Conn, error)
	for name, test := range map[string]struct {
		dials   []dial // one try after the other; the last one again and again
		timeout string
		reason  verify.Reason
		tries   int
	}{
		"it passes in the end":                            {[]dial{refuses, refuses, connects}, "1m", "", 3},
		"the last failure is reported":                    {[]dial{refuses, unreachable}, "500ms", verify.ReasonUnreachable, 2},
		"a try that the timeout cuts short hides nothing": {[]dial{refuses, lost}, "500ms", verify.ReasonRefused, 2},
		"a try ends so that a lost packet is sent again":  {[]dial{lost, connects}, "1m", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its clock runs only while nothing else does
				var tries atomic.Int32
				pod := check.Pod{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					return test.dials[min(int(tries.Add(1)), len(test.dials))-1](ctx, network, address)
				}}
				result := pod.Run(t.Context(), verify.Task{Timeout: test.timeout, Checks: []verify.Check{to("a", "a:1")}}).Results[0]
				assert.Equal(t, test.reason, result.Reason)
				assert.Equal(t, test.reason == "", result.Outcome == verify.Passed)
				assert.Equal(t, test.reason == "", result.Message == "")
				assert.Equal(t, test.tries, result.Tries)
			})
		})
	}
}

func TestAnInterruptedRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pod := check.Pod{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	report := pod.Run(ctx, verify.Task{Timeout: "1h", Checks: []verify.Check{to("a", "a:1")}})
	assert.Equal(t, verify.Failed, report.Results[0].Outcome)
}

func TestAKindThatTheWorkerDoesNotKnowFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock runs only while nothing else does
		report := check.Pod{}.Run(t.Context(), verify.Task{Timeout: "100ms", Checks: []verify.Check{{Name: "a"}}})
		assert.Equal(t, verify.ReasonError, report.Results[0].Reason)
	})
}

func TestATimeoutThatCannotBeReadIsNotEndless(t *testing.T) {
	pod := check.Pod{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if _, ok := ctx.Deadline(); !ok {
			return nil, errors.New("no deadline")
		}
		return connected()
	}}
	for _, timeout := range []string{"", "soon", "-1s"} {
		report := pod.Run(t.Context(), verify.Task{Timeout: timeout, Checks: []verify.Check{to("a", "a:1")}})
		assert.Equal(t, verify.Passed, report.Results[0].Outcome)
	}
}
