package inventories

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/inventory/fetch"
	"nodekeep.dev/nodekeep/policy"
)

// How long capture waits before it reads a source again that it could not read. It never waits longer than the source's interval.
const firstRetry = time.Second

// acceptInterval is how often a held snapshot is looked at: whether it was accepted.
const acceptInterval = 10 * time.Second

// callTakes is how long the calls for one snapshot may take.
const callTakes = 30 * time.Second

// Run reads the sources of the policy until ctx is done, while this process leads. Each source has its own reader, so a slow source delays no
// other one.
func (s *Sources) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.followAhead(ctx) })
	type reader struct {
		source inventory.Source
		end    func()
	}
	readers := map[string]reader{}
	for ctx.Err() == nil {
		var sources []inventory.Source
		if s.Nodes.Leading() {
			sources = s.Policy().Inventory()
		}
		wanted := map[string]inventory.Source{}
		for _, source := range sources {
			wanted[source.Name] = source
		}
		for name, reader := range readers {
			if source, is := wanted[name]; !is || !source.Same(reader.source) {
				reader.end()
				delete(readers, name)
			}
		}
		s.forget(sources)
		for _, source := range sources {
			if _, reads := readers[source.Name]; reads {
				continue
			}
			reading, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			running.Go(func() {
				defer close(done)
				s.follow(reading, source)
			})
			readers[source.Name] = reader{source, func() { cancel(); <-done }}
		}
		signal(s.ahead)
		select {
		case <-ctx.Done():
		case <-s.newPolicy:
		}
	}
	for _, reader := range readers {
		reader.end()
	}
}

// follow reads one source until ctx is done.
func (s *Sources) follow(ctx context.Context, source inventory.Source) {
	of := s.stateOf(source)
	fetcher := fetch.New(source, s.configMap, s.Files)
	retry := firstRetry
	for next := time.Duration(0); ; {
		if next <= 0 {
			next = source.Interval
			if err := s.Nodes.Contained("read inventory", "", func() error { return s.read(ctx, of, fetcher) }); err != nil && ctx.Err() == nil {
				next, retry = min(retry, source.Interval), min(2*retry, source.Interval)
			} else {
				retry = firstRetry
			}
		} else if err := s.Nodes.Contained("accept inventory", "", func() error { return s.accept(ctx, of) }); err != nil && ctx.Err() == nil {
			s.Logger.Warn("inventory that is held is looked at again", "inventory", source.Name, "error", err)
		}
		wait := next
		if of.held != nil {
			wait = min(next, acceptInterval)
		}
		next -= wait
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// read reads a source once, and puts its snapshot in force or holds it. After any failure, the last snapshot stays as it is.
func (s *Sources) read(ctx context.Context, of *state, fetcher *fetch.Fetcher) error {
	result, err := fetcher.Get(ctx, of.version)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.reportUnread(ctx, of, err)
		return err
	}
	if s.answered(of, s.Now()) {
		s.Logger.Info("inventory can be read again", "inventory", of.source.Name)
	}
	if result.Unchanged {
		return s.settle(ctx, of, nil)
	}
	of.version = "" // until it is known what becomes of the answer
	if err := s.settle(ctx, of, &result.Snapshot); err != nil {
		return err
	}
	of.version = result.Version
	return nil
}

// accept puts the snapshot that is held in force, if an operator has accepted it.
func (s *Sources) accept(ctx context.Context, of *state) error {
	if of.held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTakes)
	defer cancel()
	if noted, _, err := s.noted(ctx, of.source.Name); err != nil || noted.accepted != of.held.Hash() {
		return err
	}
	return s.settle(ctx, of, nil)
}

// settle puts a snapshot in force, or holds it; nil: the source has said nothing new.
func (s *Sources) settle(ctx context.Context, of *state, next *inventory.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, callTakes)
	defer cancel()
	if next == nil {
		next = of.held
	}
	if next == nil && !of.read {
		return nil
	}
	if next == nil || of.read && next.Hash() == of.inForce.Hash() {
		s.put(of, of.inForce)
		s.compareMachines(of)
		signal(s.ahead)
		return s.note(ctx, of, &of.inForce)
	}
	change, err := s.changeBy(ctx, of, *next)
	if err != nil {
		return err
	}
	if change != nil {
		s.hold(of, *next, *change)
		return s.note(ctx, of, nil)
	}
	if err := s.note(ctx, of, next); err != nil {
		return err
	}
	s.put(of, *next)
	s.Logger.Info("inventory is in force", "inventory", of.source.Name, "nodes", next.Len(), "hash", next.Hash())
	s.compareMachines(of)
	s.Changed()
	signal(s.ahead)
	return nil
}

// changeBy returns the change that an operator has to accept before a snapshot comes into force; nil: none.
func (s *Sources) changeBy(ctx context.Context, of *state, next inventory.Snapshot) (*inventory.Change, error) {
	noted, _, err := s.noted(ctx, of.source.Name)
	if err != nil {
		return nil, err
	}
	if noted.InForce == next.Hash() || noted.accepted == next.Hash() { // before a restart, or by an operator
		return nil, nil
	}
	change := inventory.Change{Lost: of.inForce.Lost(next), Listed: of.inForce.Len()}
	change.Altered, change.Nodes = s.Altered(s.Policy(), map[string]inventory.Snapshot{of.source.Name: next})
	if !change.NeedsAcceptance() {
		return nil, nil
	}
	return &change, nil
}

// hold keeps a snapshot until an operator accepts it.
func (s *Sources) hold(of *state, next inventory.Snapshot, change inventory.Change) {
	s.change(func() { of.held, of.change = &next, change })
	if of.reported != next.Hash() {
		of.reported = next.Hash()
		s.reportHeld(of.source.Name, next.Hash(), change)
	}
}

// compareMachines counts the Nodes whose machine is another one than the snapshot in force lists.
func (s *Sources) compareMachines(of *state) {
	differs := 0
	for name, systemUUID := range s.Nodes.Machines() {
		if _, same := of.inForce.Of(name, systemUUID); !same && of.inForce.SystemUUID(name) != "" {
			differs++
		}
	}
	s.change(func() { of.differs = differs })
}

// reportUnread reports why a source cannot be read, once until the reason changes.
func (s *Sources) reportUnread(ctx context.Context, of *state, err error) {
	if reason := fetch.ReasonOf(err); s.failed(of, reason) {
		text := policy.Shortened(policy.Text(err.Error()), maxShownError)
		s.Logger.Warn("inventory cannot be read; what it said last stays in force", "inventory", of.source.Name, "reason", reason, "error", text)
		s.Warn(FactsUnknown,
			"Inventory %s cannot be read (%s). What it said last stays in force until it is stale; then labels stay as they are. (%s)", of.source.Name, reason, text)
	}
	if err := s.note(ctx, of, nil); err != nil && ctx.Err() == nil {
		s.Logger.Warn("state of an inventory cannot be written", "inventory", of.source.Name, "error", err)
	}
}

// maxShownError is how many bytes are shown of why a source cannot be read.
const maxShownError = 300

// reportHeld reports that a snapshot waits for an operator.
func (s *Sources) reportHeld(source, hash string, change inventory.Change) {
	s.Logger.Warn("inventory would change many nodes; until it is accepted, what it said before stays in force", "inventory", source, "hash", hash,
		"lost", change.Lost, "listed", change.Listed, "altered", change.Altered, "nodes", change.Nodes)
	s.Warn(ChangesHeld,
		"Inventory %s does not list %d of %d Nodes any more, and would remove or change labels on %d of %d. What it said before stays in force. To accept: nodekeep policy accept %s",
		source, change.Lost, change.Listed, change.Altered, change.Nodes, hash)
}

// configMap reads a source that is a ConfigMap.
func (s *Sources) configMap(ctx context.Context, name string) (content []byte, version string, err error) {
	from, err := s.Notes.Client.CoreV1().ConfigMaps(s.Notes.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("get configmap %q: %w", name, err)
	}
	if text, is := from.Data[fetch.Key]; is {
		return []byte(text), from.ResourceVersion, nil
	}
	if binary, is := from.BinaryData[fetch.Key]; is {
		return binary, from.ResourceVersion, nil
	}
	return nil, "", fmt.Errorf("configmap %q has no key %s", name, fetch.Key)
}
