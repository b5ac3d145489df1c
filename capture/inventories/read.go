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
const retryBaseDelay = time.Second

// acceptInterval is how often a held snapshot is looked at: whether it was accepted.
const acceptInterval = 10 * time.Second

// callTimeout is how long the calls for one snapshot may take.
const callTimeout = 30 * time.Second

// Run reads the sources of the policy until ctx is done, while this process leads. Each source has its own reader, so a slow source delays no
// other one.
func (s *Sources) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.preloadAll(ctx) })
	type reader struct {
		source inventory.Source
		end    func()
	}
	readers := map[string]reader{}
	for ctx.Err() == nil {
		var sources []inventory.Source
		if s.Controller.Leading() {
			sources = s.Policy().Inventory()
		}
		wanted := map[string]inventory.Source{}
		for _, source := range sources {
			wanted[source.Name] = source
		}
		for name, reader := range readers {
			if source, ok := wanted[name]; !ok || !source.Equal(reader.source) {
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
				s.poll(reading, source)
			})
			readers[source.Name] = reader{source, func() { cancel(); <-done }}
		}
		signal(s.preloadSignal)
		select {
		case <-ctx.Done():
		case <-s.newPolicy:
		}
	}
	for _, reader := range readers {
		reader.end()
	}
}

// poll reads one source until ctx is done.
func (s *Sources) poll(ctx context.Context, source inventory.Source) {
	st := s.stateOf(source)
	fetcher := fetch.New(source, s.readConfigMap, s.Files)
	retry := retryBaseDelay
	for remaining := time.Duration(0); ; {
		if remaining <= 0 {
			remaining = source.Interval
			if err := s.Controller.CallRecovering("read inventory", "", func() error { return s.read(ctx, st, fetcher) }); err != nil && ctx.Err() == nil {
				remaining, retry = min(retry, source.Interval), min(2*retry, source.Interval)
			} else {
				retry = retryBaseDelay
			}
		} else if err := s.Controller.CallRecovering("accept inventory", "", func() error { return s.acceptIfDecided(ctx, st) }); err != nil && ctx.Err() == nil {
			s.Logger.Warn("inventory that is held is looked at again", "inventory", source.Name, "error", err)
		}
		wait := remaining
		if st.held != nil {
			wait = min(remaining, acceptInterval)
		}
		remaining -= wait
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
func (s *Sources) read(ctx context.Context, st *state, fetcher *fetch.Fetcher) error {
	result, err := fetcher.Get(ctx, st.version)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.reportUnread(ctx, st, err)
		return err
	}
	if s.noteAnswer(st, s.Now()) {
		s.Logger.Info("inventory can be read again", "inventory", st.source.Name)
	}
	if result.Unchanged {
		return s.decide(ctx, st, nil)
	}
	st.version = "" // until it is known what becomes of the answer
	if err := s.decide(ctx, st, &result.Snapshot); err != nil {
		return err
	}
	st.version = result.Version
	return nil
}

// acceptIfDecided puts the snapshot that is held in force, if an operator has accepted it.
func (s *Sources) acceptIfDecided(ctx context.Context, st *state) error {
	if st.held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if status, _, err := s.readStatus(ctx, st.source.Name); err != nil || status.accepted != st.held.Hash() {
		return err
	}
	return s.decide(ctx, st, nil)
}

// decide puts a snapshot in force, or holds it; nil: the source has said nothing new.
func (s *Sources) decide(ctx context.Context, st *state, next *inventory.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if next == nil {
		next = st.held
	}
	if next == nil && !st.hasSnapshot {
		return nil
	}
	if next == nil || st.hasSnapshot && next.Hash() == st.inForce.Hash() {
		s.putInForce(st, st.inForce)
		s.compareMachines(st)
		signal(s.preloadSignal)
		return s.updateStatus(ctx, st, &st.inForce)
	}
	change, err := s.changeToAccept(ctx, st, *next)
	if err != nil {
		return err
	}
	if change != nil {
		s.hold(st, *next, *change)
		return s.updateStatus(ctx, st, nil)
	}
	if err := s.updateStatus(ctx, st, next); err != nil {
		return err
	}
	s.putInForce(st, *next)
	s.Logger.Info("inventory is in force", "inventory", st.source.Name, "nodes", next.Len(), "hash", next.Hash())
	s.compareMachines(st)
	s.OnChange()
	signal(s.preloadSignal)
	return nil
}

// changeToAccept returns the change that an operator has to accept before a snapshot comes into force; nil: none.
func (s *Sources) changeToAccept(ctx context.Context, st *state, next inventory.Snapshot) (*inventory.Change, error) {
	status, _, err := s.readStatus(ctx, st.source.Name)
	if err != nil {
		return nil, err
	}
	if status.InForce == next.Hash() || status.accepted == next.Hash() { // before a restart, or by an operator
		return nil, nil
	}
	change := inventory.Change{Lost: st.inForce.Lost(next), Listed: st.inForce.Len()}
	change.Altered, change.Nodes = s.CountAltered(s.Policy(), map[string]inventory.Snapshot{st.source.Name: next})
	if !change.NeedsAcceptance() {
		return nil, nil
	}
	return &change, nil
}

// hold keeps a snapshot until an operator accepts it.
func (s *Sources) hold(st *state, next inventory.Snapshot, change inventory.Change) {
	s.locked(func() { st.held, st.change = &next, change })
	if st.reported != next.Hash() {
		st.reported = next.Hash()
		s.reportHeld(st.source.Name, next.Hash(), change)
	}
}

// compareMachines counts the Nodes whose machine is another one than the snapshot in force lists.
func (s *Sources) compareMachines(st *state) {
	differs := 0
	for name, systemUUID := range s.Controller.SystemUUIDs() {
		if _, ok := st.inForce.Attributes(name, systemUUID); !ok && st.inForce.SystemUUID(name) != "" {
			differs++
		}
	}
	s.locked(func() { st.mismatched = differs })
}

// reportUnread reports why a source cannot be read, once until the reason changes.
func (s *Sources) reportUnread(ctx context.Context, st *state, err error) {
	if reason := fetch.ReasonOf(err); s.noteFailure(st, reason) {
		text := policy.Shortened(policy.Text(err.Error()), maxShownError)
		s.Logger.Warn("inventory cannot be read; what it said last stays in force", "inventory", st.source.Name, "reason", reason, "error", text)
		s.Warn(FactsUnknown,
			"Inventory %s cannot be read (%s). What it said last stays in force until it is stale; then labels stay as they are. (%s)", st.source.Name, reason, text)
	}
	if err := s.updateStatus(ctx, st, nil); err != nil && ctx.Err() == nil {
		s.Logger.Warn("state of an inventory cannot be written", "inventory", st.source.Name, "error", err)
	}
}

// maxShownError is how many bytes are shown of why a source cannot be read.
const maxShownError = 300

// reportHeld reports that a snapshot waits for an operator.
func (s *Sources) reportHeld(source, hash string, change inventory.Change) {
	s.Logger.Warn("inventory would change many nodes; until it is accepted, what it said before stays in force", "inventory", source, "hash", hash,
		"lost", change.Lost, "listed", change.Listed, "altered", change.Altered, "nodes", change.Nodes)
	s.Warn(ChangesHeld,
		"Inventory %s does not list %d of %d Nodes any more, and would remove or change labels on %d of %d. What it said before stays in force. To accept: nodekeep accept rules %s",
		source, change.Lost, change.Listed, change.Altered, change.Nodes, hash)
}

// readConfigMap reads a source that is a ConfigMap.
func (s *Sources) readConfigMap(ctx context.Context, name string) (content []byte, version string, err error) {
	configMap, err := s.Notes.Client.CoreV1().ConfigMaps(s.Notes.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("get configmap %q: %w", name, err)
	}
	if text, ok := configMap.Data[fetch.Key]; ok {
		return []byte(text), configMap.ResourceVersion, nil
	}
	if binary, ok := configMap.BinaryData[fetch.Key]; ok {
		return binary, configMap.ResourceVersion, nil
	}
	return nil, "", fmt.Errorf("configmap %q has no key %s", name, fetch.Key)
}
