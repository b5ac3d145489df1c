package nodepolicy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Resource returns that of NodePolicies.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "nodekeep.dev", Version: "v1alpha1", Resource: "nodepolicies"}
}

// Options are what a Source works with. All are required but Prepare, Suspends and Replica.
type Options struct {
	Objects   dynamic.Interface
	Client    kubernetes.Interface
	Namespace string // of ConfigMap [store.AcceptedConfigMap]
	Gate      policy.Gate
	Prepare   func(policy.Policy) error // before a policy comes into force; if it fails, the policy cannot be used
	Suspends  bool                      // the policy in force closes no Node during an emergency
	Replica   string                    // the name of this process' Pod; empty: the status does not say what it follows
	Logger    *slog.Logger
}

// Source is where a process has its policy from.
type Source struct {
	Options

	known   chan struct{} // closed once it is known what is in force
	current atomic.Pointer[state]
	stopped emergency
	changed func()
	wrong   func(error)

	toAnnounce, toReport chan struct{} // hold one value after the NodePolicy has changed, its status included

	mu     sync.Mutex // one at a time decides
	seen   version
	latest *unstructured.Unstructured // the NodePolicy as it was seen last; nil: there is none
}

// state is what is in force, and the object that was seen last.
type state struct {
	ruling
	version
}

// version is that of an object whose spec was judged. The zero value is no object.
type version struct {
	uid        types.UID
	generation int64
}

// NewSource reads nothing yet.
func NewSource(options Options) *Source {
	if options.Prepare == nil {
		options.Prepare = func(policy.Policy) error { return nil }
	}
	s := &Source{Options: options, known: make(chan struct{}), toAnnounce: make(chan struct{}, 1), toReport: make(chan struct{}, 1), changed: func() {}, wrong: func(error) {}}
	s.current.Store(&state{ruling: ruling{policy: s.defaults()}})
	return s
}

func (s *Source) defaults() policy.Policy { return policy.Default().WithGate(s.Gate) }

// Policy returns the policy in force. Before that is known, it is the default, by which nobody should act.
func (s *Source) Policy() policy.Policy { return s.current.Load().policy.WithEmergency(s.Emergency()) }

// InForce returns the policy in force, and the generation of the NodePolicy that it comes from. The generation is 0 if the NodePolicy is not in force.
func (s *Source) InForce() (p policy.Policy, generation int64) {
	now := s.current.Load()
	if now.from == object && now.trouble == nil {
		generation = now.generation
	}
	return now.policy.WithEmergency(s.Emergency()), generation
}

// Known reports whether it is known what is in force.
func (s *Source) Known() bool {
	select {
	case <-s.known:
		return true
	default:
		return false
	}
}

// Wait waits until it is known what is in force. It reports false if ctx is done before.
func (s *Source) Wait(ctx context.Context) (known bool) {
	select {
	case <-s.known:
		return true
	case <-ctx.Done():
		return false
	}
}

// Err returns why the policy in force is not what the NodePolicy says. It is nil while it is, and while there is no NodePolicy and none was accepted
// before.
func (s *Source) Err() error { return s.current.Load().trouble }

// Stopgap reports whether the defaults are in force only for want of a policy. Neither the NodePolicy nor a copy of an accepted one can be used then.
// What the defaults allow to delete, an operator may have forbidden.
func (s *Source) Stopgap() bool { return s.current.Load().stopgap() }

// UID returns that of the NodePolicy; empty while there is none.
func (s *Source) UID() types.UID { return s.current.Load().uid }

// Accepted returns the manifest, as JSON, of the policy in force. It is nil if that does not come from the NodePolicy.
func (s *Source) Accepted() []byte {
	if now := s.current.Load(); now.from == object {
		return now.manifest
	}
	return nil
}

// Run finds out which policy is in force, and follows the NodePolicy until ctx is done. It calls changed once it knows the policy, and after each
// change of it. It calls wrong with the reason, once for each generation that cannot be used, and once for a deletion.
func (s *Source) Run(ctx context.Context, changed func(), wrong func(error)) {
	s.changed, s.wrong = changed, wrong
	if err := firstReads().DelayFunc().Until(ctx, true, true, s.begin()); err != nil {
		return
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.announce(ctx) })
	for _, declaration := range s.declaring() {
		group.Go(func() { s.watchDeclaration(ctx, declaration) })
	}
	s.watchPolicy(ctx)
}

// firstReads returns how often a process tries to read which policy is in force.
func firstReads() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 10 * time.Second}
}

// readTimeout bounds one read.
const readTimeout = 10 * time.Second

// begin makes a function that tries to find out which policy is in force.
func (s *Source) begin() wait.ConditionWithContextFunc {
	warned := ""
	return func(ctx context.Context) (known bool, err error) {
		err = contain.Call(func() error { return s.readFirst(ctx) })
		if err != nil && ctx.Err() == nil && err.Error() != warned {
			warned = err.Error()
			s.Logger.Warn("policy cannot be read yet; until it is, this process does nothing", "error", err)
		}
		return err == nil, nil
	}
}

// readFirst decides for the first time. An error means that the API server has not answered.
func (s *Source) readFirst(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	policyObject, err := s.Objects.Resource(Resource()).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !answered(err) {
		return fmt.Errorf("get NodePolicy %q: %w", name, err)
	}
	found, seen := findings{err: err}, version{}
	if err == nil {
		seen = versionOf(policyObject)
		if found.manifest, err = manifestOf(policyObject.Object); err != nil {
			return err
		}
	}
	r, _ := first(found, s.load, s.defaults())
	if r.from != object {
		if found.accepted, err = s.readAccepted(ctx); err != nil {
			return err
		}
		var decided bool
		if r, decided = first(found, s.load, s.defaults()); !decided {
			return fmt.Errorf("get NodePolicy %q: %w", name, found.err)
		}
	}
	if err := s.readEmergency(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
	if found.err == nil {
		s.latest = policyObject
	}
	s.current.Store(&state{ruling: r, version: seen})
	s.wake()
	s.contained(func() { s.report(r) })
	s.contained(s.changed)
	close(s.known)
	return nil
}

// readAccepted reads the copies of the policies that were accepted last.
func (s *Source) readAccepted(ctx context.Context) (manifests [][]byte, err error) {
	found, err := s.Client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, store.AcceptedConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get configmap %q: %w", store.AcceptedConfigMap, err)
	}
	return copies(found.Data), nil
}

// load returns the [loader] of a process.
func (s *Source) load(manifest []byte) (loaded policy.Policy, err error) {
	err = contain.Call(func() (err error) {
		if loaded, err = policy.LoadObject(manifest, s.Gate); err != nil {
			return err
		}
		return s.Prepare(loaded)
	})
	return loaded, err
}

func versionOf(seen *unstructured.Unstructured) version {
	return version{seen.GetUID(), seen.GetGeneration()}
}

// wake has the status looked at.
func (s *Source) wake() {
	signal(s.toAnnounce)
	signal(s.toReport)
}

// saw decides on the NodePolicy as it is now.
func (s *Source) saw(seen *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	current := versionOf(seen)
	if current.uid != s.seen.uid || current.generation >= s.seen.generation {
		s.latest = seen
	}
	if current.uid == s.seen.uid && current.generation <= s.seen.generation { // a list may be older than what was read
		return
	}
	manifest, err := manifestOf(seen.Object)
	prev := s.current.Load().ruling
	r, changed := prev, false
	if err == nil {
		r, changed = prev.next(manifest, s.load)
	} else {
		r.trouble = err
	}
	s.seen = current
	s.current.Store(&state{ruling: r, version: current})
	s.report(r)
	if changed {
		s.changed()
	}
}

// missed decides while there is no NodePolicy for that reason.
func (s *Source) missed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prev := s.current.Load()
	r := prev.whenAbsent(err)
	if s.seen == (version{}) && fmt.Sprint(r.trouble) == fmt.Sprint(prev.trouble) {
		return
	}
	s.seen, s.latest = version{}, nil
	s.current.Store(&state{ruling: r})
	s.report(r)
}

// report says what is in force, and why.
func (s *Source) report(r ruling) {
	switch {
	case r.trouble != nil && s.seen == version{}:
		s.Logger.Error("no NodePolicy can be read; the last good policy stays in force", "error", r.trouble)
		s.wrong(r.trouble)
	case r.trouble != nil:
		s.Logger.Error("policy cannot be used; the last good one stays in force", "generation", s.seen.generation, "error", r.trouble)
		s.wrong(r.trouble)
	case r.from == nowhere:
		s.Logger.Info("there is no NodePolicy, and none was accepted before; the defaults are in force")
	default:
		s.Logger.Info("policy in force", "generation", s.seen.generation)
	}
}
