package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
)

// How often the inline route is proved: until it works for the first time, and from then on. The first tries follow each other closely.
// A webhook that starts has no certificate and no records for a moment, and fails its own test.
const (
	probeFirst    = 250 * time.Millisecond
	probeRetry    = 10 * time.Second
	probeInterval = 10 * time.Minute
	probeTimeout  = 5 * time.Second
)

// InlineProbe knows whether the inline route works on this API server. Documented behaviour promises only that a webhook with reinvocationPolicy
// IfNeeded may be called again. So a dry-run CREATE with the identity of a kubelet has to show it.
type InlineProbe struct {
	dryRun *DryRun
	policy func() policy.Policy
	logger *slog.Logger
	err    atomic.Pointer[error] // why not; errNotProvedYet before the first dry run
}

var errNotProbed = errors.New("not proved yet")

// NewInlineProbe makes a proof that has not succeeded yet. The config is the webhook's own, which must be allowed the dry run as the self-test's
// kubelet.
func NewInlineProbe(config *rest.Config, currentPolicy func() policy.Policy, logger *slog.Logger) (*InlineProbe, error) {
	dryRun, err := NewDryRun(config)
	if err != nil {
		return nil, err
	}
	return &InlineProbe{dryRun: dryRun, policy: currentPolicy, logger: logger}, nil
}

// Works reports whether the last dry run showed that the inline route works.
func (p *InlineProbe) Works() bool { return p.Err() == nil }

// Err returns why protected labels are deferred although the policy says inline; nil where they are not.
func (p *InlineProbe) Err() error { return ptr.Deref(p.err.Load(), errNotProbed) }

// Run proves the route from time to time until ctx is done, while the policy asks for it.
func (p *InlineProbe) Run(ctx context.Context) error {
	retry := probeFirst
	for {
		wait := retry
		retry = min(2*retry, probeRetry)
		if p.policy().RestoresInline() {
			p.setResult(contain.Call(func() error { return p.probe(ctx) }))
			if p.Works() {
				wait = probeInterval
			}
		} else {
			p.setResult(errNotProbed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (p *InlineProbe) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	created, err := p.dryRun.Register(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("dry-run creation of node %q: %w", SelfTestNode, err)
	case !passed(created, p.policy().Gate()):
		return errors.New("the API server did not store both labels: is the webhook restore-protected.nodekeep.dev configured, before the other one? During an emergency (nodekeep emergency) it is not called")
	}
	return nil
}

func (p *InlineProbe) setResult(err error) {
	prev := ptr.Deref(p.err.Swap(&err), errNotProbed)
	switch {
	case err == nil && prev != nil:
		p.logger.Info("protected labels are restored inline: proved on this API server")
	case err != nil && !errors.Is(err, errNotProbed) && (prev == nil || prev.Error() != err.Error()):
		p.logger.Warn("protected labels are deferred although the policy says inline", "error", err)
	}
}
