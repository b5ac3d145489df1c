package check

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// Between two tries of a check are pauses that double from the first to the last of these.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// firstTry is how long the first try may take; each further one may take twice as long. A lost packet then costs a short try, and a slow
// answer gets its time in a later one.
const firstTry = 2 * time.Second

// maxAtOnce is how many DNS servers and addresses of Services are asked at once. A question takes some 50 KiB, and the Pod has 16 MiB.
const maxAtOnce = 64

// defaultTimeout stands in for one that cannot be read; [verify.ParseTask] refuses such a task.
const defaultTimeout = 30 * time.Second

// Run asks all checks of the worker ([verify.Check.ByWorker]) at once. It repeats each until it passes or its timeout, or that of the task, ends. The report
// has the last failure of each check. A run that ctx ended early proves nothing: callers check ctx first.
func Run(ctx context.Context, task verify.Task) verify.Report {
	return ThisPod(os.Getenv).Run(ctx, task)
}

// Run is [Run] in a given Pod.
func (p Pod) Run(ctx context.Context, task verify.Task) verify.Report {
	timeout, err := time.ParseDuration(task.Timeout)
	if err != nil || timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	checks := slices.DeleteFunc(slices.Clone(task.Checks), func(check verify.Check) bool { return !check.ByWorker() })
	r := &run{pod: p, task: task, slots: make(chan struct{}, maxAtOnce), roots: sync.OnceValues(machineRoots)}
	report := verify.Report{Results: make([]verify.Result, len(checks))}
	var group sync.WaitGroup
	for i := range checks {
		group.Go(func() { report.Results[i] = r.check(ctx, &checks[i]) })
	}
	group.Wait()
	return report
}

// run is what the checks of a task share.
type run struct {
	pod   Pod
	task  verify.Task
	slots chan struct{}                  // each has a server that is asked now
	roots func() (*x509.CertPool, error) // for certificates; some 2 MB
}

// check asks until the check passes or ctx ends.
func (r *run) check(ctx context.Context, check *verify.Check) (result verify.Result) {
	result = verify.Result{Check: check.Name, Outcome: verify.Failed, Required: check.IsRequired()}
	if timeout, err := time.ParseDuration(check.Timeout); err == nil && timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	began := time.Now()
	defer func() { result.Millis = int(time.Since(began).Milliseconds()) }()
	for length, pause := firstTry, firstPause; ; length, pause = 2*length, min(2*pause, lastPause) {
		result.Tries++
		err := check.Ask(try{r, ctx, length})
		if err == nil {
			result.Outcome, result.Reason, result.Message = verify.Passed, "", ""
			return result
		}
		// The end of the timeout cuts the last try short. It then says less than an earlier one that failed by itself.
		if result.Reason == "" || ctx.Err() == nil {
			failed := asFailure(err)
			result.Reason, result.Message = failed.reason, failed.message
		}
		select {
		case <-ctx.Done():
			return result
		case <-time.After(pause):
		}
	}
}

// try is one try of a check. The method of each kind that the worker asks is in the file of that kind.
type try struct {
	*run
	ctx    context.Context
	length time.Duration // for which each server is asked at most
}

// single returns the context of a try that asks one server alone.
func (t try) single() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, t.length)
}

// first asks all of a check's servers at once, as far as the run has room. It returns the first failure in their order. Its message shows how many
// others failed.
func (t try) first(servers []string, noun string, ask func(ctx context.Context, server string) error) error {
	failures := make([]error, len(servers))
	var group sync.WaitGroup
	for i, server := range servers {
		group.Go(func() {
			select {
			case t.slots <- struct{}{}:
				defer func() { <-t.slots }()
			case <-t.ctx.Done():
				failures[i] = failf(verify.ReasonTimeout, "%s was not asked in time", cmp.Or(server, "the Pod's own DNS server"))
				return
			}
			ctx, cancel := t.single() // begins now: waiting for mute servers must not make a good one fail
			defer cancel()
			failures[i] = ask(ctx, server)
		})
	}
	group.Wait()
	failed := slices.DeleteFunc(failures, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return nil
	}
	first := asFailure(failed[0])
	if len(servers) > 1 {
		first.message += fmt.Sprintf(" (%d of %d %s failed)", len(failed), len(servers), noun)
	}
	return first
}
