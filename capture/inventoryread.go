package capture

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/inventory/fetch"
)

// How long capture waits before it reads a source again that it could not read. It never waits longer than the source's interval.
const firstInventoryRetry = time.Second

// followInventories reads the sources of the policy while this process leads. Each source has its own reader, so a slow source delays no
// other one.
func (c *Controller) followInventories(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.followPreload(ctx) })
	type reader struct {
		source inventory.Source
		end    func()
	}
	readers := map[string]reader{}
	for ctx.Err() == nil {
		var sources []inventory.Source
		if c.leading.Load() {
			sources = c.Policy().Inventory()
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
		c.inventories.forget(sources)
		for _, source := range sources {
			if _, reads := readers[source.Name]; reads {
				continue
			}
			reading, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			running.Go(func() {
				defer close(done)
				c.followInventory(reading, source)
			})
			readers[source.Name] = reader{source, func() { cancel(); <-done }}
		}
		signal(c.inventories.preload)
		select {
		case <-ctx.Done():
		case <-c.inventories.newPolicy:
		}
	}
	for _, reader := range readers {
		reader.end()
	}
}

// followInventory reads one source until ctx is done.
func (c *Controller) followInventory(ctx context.Context, source inventory.Source) {
	state := c.inventories.state(source)
	fetcher := fetch.New(source, c.inventoryMap, c.InventoryFiles)
	retry := firstInventoryRetry
	for next := time.Duration(0); ; {
		if next <= 0 {
			next = source.Interval
			if err := c.Contained("read inventory", "", func() error { return c.readInventory(ctx, state, fetcher) }); err != nil && ctx.Err() == nil {
				next, retry = min(retry, source.Interval), min(2*retry, source.Interval)
			} else {
				retry = firstInventoryRetry
			}
		} else if err := c.Contained("accept inventory", "", func() error { return c.acceptInventory(ctx, state) }); err != nil && ctx.Err() == nil {
			c.Logger.Warn("inventory that is held is looked at again", "inventory", source.Name, "error", err)
		}
		wait := next
		if state.held != nil {
			wait = min(next, rolloutInterval)
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

// readInventory reads a source once, and puts its snapshot in force or holds it. After any failure, the last snapshot stays as it is.
func (c *Controller) readInventory(ctx context.Context, state *inventoryState, fetcher *fetch.Fetcher) error {
	result, err := fetcher.Get(ctx, state.version)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.reportUnreadInventory(ctx, state, err)
		return err
	}
	if c.inventories.answered(state, c.Now()) {
		c.Logger.Info("inventory can be read again", "inventory", state.source.Name)
	}
	if result.Unchanged {
		return c.settleInventory(ctx, state, nil)
	}
	state.version = "" // until it is known what becomes of the answer
	if err := c.settleInventory(ctx, state, &result.Snapshot); err != nil {
		return err
	}
	state.version = result.Version
	return nil
}

// acceptInventory puts the snapshot that is held in force, if an operator has accepted it.
func (c *Controller) acceptInventory(ctx context.Context, state *inventoryState) error {
	if state.held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	if noted, _, err := c.notedInventory(ctx, state.source.Name); err != nil || noted.accepted != state.held.Hash() {
		return err
	}
	return c.settleInventory(ctx, state, nil)
}

// settleInventory puts a snapshot in force, or holds it; nil: the source has said nothing new.
func (c *Controller) settleInventory(ctx context.Context, state *inventoryState, next *inventory.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	if next == nil {
		next = state.held
	}
	if next == nil && !state.read {
		return nil
	}
	if next == nil || state.read && next.Hash() == state.inForce.Hash() {
		c.inventories.put(state, state.inForce)
		c.compareMachines(state)
		signal(c.inventories.preload)
		return c.noteInventory(ctx, state, &state.inForce)
	}
	change, err := c.changeBy(ctx, state, *next)
	if err != nil {
		return err
	}
	if change != nil {
		c.holdInventory(state, *next, *change)
		return c.noteInventory(ctx, state, nil)
	}
	if err := c.noteInventory(ctx, state, next); err != nil {
		return err
	}
	c.inventories.put(state, *next)
	c.Logger.Info("inventory is in force", "inventory", state.source.Name, "nodes", next.Len(), "hash", next.Hash())
	c.compareMachines(state)
	c.lookAtRules()
	c.enqueueAll()
	signal(c.inventories.preload)
	return nil
}

// changeBy is the change that an operator has to accept before a snapshot comes into force; nil: none.
func (c *Controller) changeBy(ctx context.Context, state *inventoryState, next inventory.Snapshot) (*inventory.Change, error) {
	noted, _, err := c.notedInventory(ctx, state.source.Name)
	if err != nil {
		return nil, err
	}
	if noted.InForce == next.Hash() || noted.accepted == next.Hash() { // before a restart, or by an operator
		return nil, nil
	}
	change := inventory.Change{Lost: state.inForce.Lost(next), Listed: state.inForce.Len()}
	change.Altered, _, change.Nodes = c.alteredNodes(c.Policy(), map[string]inventory.Snapshot{state.source.Name: next})
	if !change.NeedsAcceptance() {
		return nil, nil
	}
	return &change, nil
}

// holdInventory keeps a snapshot until an operator accepts it.
func (c *Controller) holdInventory(state *inventoryState, next inventory.Snapshot, change inventory.Change) {
	c.inventories.change(func() { state.held, state.change = &next, change })
	if state.reported != next.Hash() {
		state.reported = next.Hash()
		c.reportHeldInventory(state.source.Name, next.Hash(), change)
	}
}

// compareMachines counts the Nodes whose machine is another one than the snapshot in force lists.
func (c *Controller) compareMachines(state *inventoryState) {
	differs := 0
	for name, systemUUID := range c.liveMachines() {
		if _, same := state.inForce.Of(name, systemUUID); !same && state.inForce.SystemUUID(name) != "" {
			differs++
		}
	}
	c.inventories.change(func() { state.differs = differs })
}

// liveMachines are the systemUUIDs that the Nodes which are there report.
func (c *Controller) liveMachines() map[string]string {
	live := map[string]string{}
	for _, name := range c.observations.names() {
		if _, node := c.observations.look(name); node != nil && node.Fault == nil {
			live[name] = node.Machine.SystemUUID
		}
	}
	return live
}

// inventoryMap reads a source that is a ConfigMap.
func (c *Controller) inventoryMap(ctx context.Context, name string) (content []byte, version string, err error) {
	from, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, name, metav1.GetOptions{})
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
