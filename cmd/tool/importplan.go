package tool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cmd/tool/view"
	"nodekeep.dev/nodekeep/store"
)

// importPlan is what becomes of the records of a file.
type importPlan struct {
	*cluster
	view.Importing
	file    *importFile
	world   view.World
	options view.ImportOptions
	actions []view.ImportAction // of the file's entries
	list    view.ImportList     // in full, for dry runs only
}

// planImport goes through the Nodes and records of the cluster once.
func (c *cluster) planImport(ctx context.Context, file *importFile, world view.World, options view.ImportOptions, inFull bool) (*importPlan, error) {
	p := &importPlan{cluster: c, file: file, world: world, options: options, actions: make([]view.ImportAction, len(file.places))}
	var full []view.Import
	if inFull {
		full = make([]view.Import, len(file.places))
	}
	bar := newProgress(c.ErrOut, unknown, "comparing with the cluster")
	defer bar.end()
	decide := func(i int, sight view.Sight) error {
		record, err := file.record(i)
		if err != nil {
			return err
		}
		one := view.ImportOf(record, sight, world, options)
		p.actions[i] = one.Action
		if inFull {
			one.Write, one.Give, one.Set = nil, nil, nil
			full[i] = one
		}
		return nil
	}
	for sight, err := range c.allSights(ctx) {
		if err != nil {
			return nil, err
		}
		bar.add(1)
		if i, is := file.byNode[sight.Name]; is {
			if err := decide(i, sight); err != nil {
				return nil, err
			}
		}
	}
	for i, place := range file.places {
		switch {
		case p.actions[i] != "":
		case inFull:
			if err := decide(i, view.Sight{Name: place.Node}); err != nil {
				return nil, err
			}
		default:
			p.actions[i] = view.ImportCreate // there is neither Node nor record
		}
		p.Add(place.Node, p.actions[i])
	}
	p.list.Items = full
	return p, nil
}

// carryOut does what was planned, some records at a time, and tells what was done, however it ends.
func (p *importPlan) carryOut(ctx context.Context) error {
	var mu sync.Mutex
	var done view.Importing
	var work []int
	var refusals []string
	for i, action := range p.actions {
		switch action {
		case view.ImportCreate, view.ImportChange, view.ImportGive:
			work = append(work, i)
		default:
			done.Add(p.file.places[i].Node, action)
		}
	}
	bar := newProgress(p.ErrOut, int64(len(work)), "importing")
	err := forEach(ctx, work, func(ctx context.Context, i int) error {
		action, err := p.importOne(ctx, i)
		mu.Lock()
		defer mu.Unlock()
		if errors.As(err, &unwantedError{}) {
			action = view.ImportRefused
			refusals = append(refusals, "  "+err.Error())
		} else if err != nil {
			return fmt.Errorf("import record of node %q: %w", p.file.places[i].Node, err)
		}
		done.Add(p.file.places[i].Node, action)
		bar.add(1)
		return nil
	})
	bar.end()
	left := p.All() - done.All()
	switch {
	case err != nil && done.Work() == 0:
		return fmt.Errorf("nothing was imported: %w", err)
	case err != nil:
		return findings(fmt.Errorf("broken off after %s; %d records are left: run it again, it goes on from there\n%w", done.Done(), left, err))
	case left > 0:
		return exitError{exitInterrupted, fmt.Errorf("interrupted after %s; %d records are left: run it again, it goes on from there", done.Done(), left)}
	}
	if _, err := fmt.Fprintln(p.Out, done.Done()); err != nil {
		return err
	}
	return findings(done.LeftAlone(refusals...))
}

// patience is how an API server in trouble is asked again.
func patience() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 6}
}

// transient reports whether an error may go by itself. Whether what was asked for was done is not known then, so one looks again.
func transient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// importOne imports one record, as long as it takes. A new one is written without a look, unless somebody was faster.
func (p *importPlan) importOne(ctx context.Context, i int) (action view.ImportAction, err error) {
	record, err := p.file.record(i)
	if err != nil {
		return "", err
	}
	looked := p.actions[i] != view.ImportCreate
	for range tries {
		err = retry.OnError(patience(), transient, func() (err error) {
			action, err = p.attempt(ctx, record, looked)
			looked = true
			return err
		})
		if !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	return action, err
}

// attempt decides and acts once.
func (p *importPlan) attempt(ctx context.Context, record store.Record, look bool) (view.ImportAction, error) {
	sight, entry := view.Sight{Name: record.Node}, store.Entry{}
	if look {
		var err error
		if sight, entry, err = p.look(ctx, record.Node); err != nil {
			return "", err
		}
	}
	one := view.ImportOf(record, sight, p.world, p.options)
	if one.Write != nil { // what is remembered comes first
		if err := p.put(ctx, *one.Write, entry.Version); err != nil {
			return "", err
		}
	}
	if one.Action == view.ImportGive && len(one.Gets) > 0 {
		return one.Action, p.give(ctx, sight, one)
	}
	return one.Action, nil
}

// give puts on a live Node what it lacks.
func (p *importPlan) give(ctx context.Context, sight view.Sight, one view.Import) error {
	patch, err := capture.PatchFor(sight.Node, capture.Plan{Give: one.Give, PutRight: one.Set}, p.world.Policy)
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().Nodes().Patch(ctx, sight.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: view.ImportActor})
	switch {
	case err == nil:
		return nil
	case otherState(err):
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && !errors.As(p.failed(p.toNodes("patch"), err), &deniedError{}):
		return unwantedError{err} // it is about what this Node would get, and not about what the caller may
	default:
		return p.failedWrite(p.toNodes("patch"), "node "+sight.Name, err)
	}
}

// unwantedError says that the API server would not have what a Node was to get.
type unwantedError struct{ error }

func (e unwantedError) Unwrap() error { return e.error }
