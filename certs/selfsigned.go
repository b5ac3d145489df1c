package certs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/contain"
)

// firstRetry is the wait after a first failed check of the API server. It doubles from there up to Options.Interval.
const firstRetry = time.Second

// errNotSynced is the trouble before the first look.
var errNotSynced = errors.New("the Secret has not been read yet")

// SelfSigned serves a certificate of a CA of its own, both kept in a Secret that all replicas share. Run must be called once; the
// other methods may be called at any time from any goroutine and never wait.
type SelfSigned struct {
	served
	client kubernetes.Interface
	opts   Options
	wanted wanted
	log    *slog.Logger

	trouble    atomic.Pointer[error] // of the last check, nil when it succeeded
	complained string                // what was last found wrong with the Secret; belongs to the goroutine of Run
}

// NewSelfSigned returns a SelfSigned that does nothing until Run. The client needs the rights to get and update the Secret, and to get and
// patch the configurations. Each right is by name.
func NewSelfSigned(client kubernetes.Interface, opts Options) *SelfSigned {
	opts = opts.withDefaults()
	s := &SelfSigned{
		client: client,
		opts:   opts,
		log:    opts.Logger,
		wanted: wanted{
			names:    servingNames(serviceName, opts.Namespace, opts.ExtraNames),
			caLife:   opts.CALife,
			leafLife: opts.LeafLife,
			grace:    opts.Grace,
		},
	}
	first := errNotSynced
	s.trouble.Store(&first)
	return s
}

// Run keeps the Secret and the webhook configurations right until ctx is done. Errors are logged and tried again, with a growing wait; none
// ends it.
func (s *SelfSigned) Run(ctx context.Context) {
	backoff := s.backoff()
	for {
		pause := s.opts.Interval
		if err := contain.Call(func() error { return s.sync(ctx) }); err == nil {
			s.trouble.Store(nil)
			backoff = s.backoff()
		} else if ctx.Err() == nil {
			s.trouble.Store(&err)
			pause = backoff.Step()
			s.log.ErrorContext(ctx, "certificate sync failed, trying again", "err", err, "in", pause)
		}
		// A tenth of jitter, so that replicas started together do not keep meeting.
		timer := s.opts.Clock.NewTimer(wait.Jitter(pause, 0.1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

func (s *SelfSigned) backoff() wait.Backoff {
	return wait.Backoff{Duration: min(firstRetry, s.opts.Interval), Factor: 2, Steps: math.MaxInt, Cap: s.opts.Interval}
}

// Loaded returns nil while there is an unexpired certificate to serve. Otherwise, it returns an error that says what to do.
func (s *SelfSigned) Loaded() error {
	c := s.serving.Load()
	if c != nil && s.opts.Clock.Now().Before(c.Leaf.NotAfter) {
		return nil
	}
	cause := errors.New("see the log")
	if trouble := s.trouble.Load(); trouble != nil {
		cause = *trouble
	}
	if c == nil {
		return fmt.Errorf("no serving certificate yet, it is kept in secret %q: %w; to serve your own, give --cert-dir", s.secret(), cause)
	}
	return fmt.Errorf("the serving certificate expired on %s and could not be replaced in secret %q: %w",
		c.Leaf.NotAfter.UTC().Format(time.RFC3339), s.secret(), cause)
}

// secret names the Secret in errors and logs.
func (s *SelfSigned) secret() string { return s.opts.Namespace + "/" + secretName }
