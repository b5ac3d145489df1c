package nodepolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/contain"
)

// manager is the field manager of what nodekeep writes into the status.
const manager = "nodekeep"

// How long a process waits after a write of the status, and after one that failed. So no client that undoes it makes nodekeep write more.
const (
	betweenWrites = time.Second
	lastRetry     = time.Minute
)

// signal wakes the reader of a channel that holds one value.
func signal(reader chan struct{}) {
	select {
	case reader <- struct{}{}:
	default: // it is about to wake up
	}
}

// announce has the status say which generation this replica follows, until ctx is done.
func (s *Source) announce(ctx context.Context) {
	if s.Replica == "" {
		return
	}
	written(ctx, s.toAnnounce, s.announceNow, func(err error) {
		s.Logger.Warn("status of the NodePolicy cannot say which generation this replica follows", "error", err)
	})
}

// written calls write at each signal, with pauses in between. After an error it tries again, ever more rarely. It calls failed with each new error.
func written(ctx context.Context, signals <-chan struct{}, write func(context.Context) error, failed func(error)) {
	reported, pause := "", betweenWrites
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		for {
			err := contain.Call(func() error { return write(ctx) })
			if err == nil {
				reported, pause = "", betweenWrites
			} else if ctx.Err() == nil && err.Error() != reported {
				reported = err.Error()
				failed(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if err == nil {
				break
			}
			pause = min(2*pause, lastRetry)
		}
	}
}

// announceNow writes which generation this replica follows, if the status says anything else.
func (s *Source) announceNow(ctx context.Context) error {
	latest, generation, follows := s.acknowledgements()
	if !follows || readReplicas(latest)[s.Replica] == generation {
		return nil
	}
	return s.writeStatus(ctx, map[string]any{"readBy": map[string]any{s.Replica: generation}})
}

// acknowledgements returns the NodePolicy as it was seen last, and the generation that the policy in force comes from. It reports false if that is not the
// object's.
func (s *Source) acknowledgements() (latest *unstructured.Unstructured, generation int64, follows bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	return s.latest, s.seen.generation, s.latest != nil && now.from == object && now.trouble == nil
}

// readReplicas returns what a status says of replicas, by the names of their Pods: the generation that each has read. A client may have written anything.
func readReplicas(latest *unstructured.Unstructured) map[string]int64 {
	found, _, err := unstructured.NestedMap(latest.Object, "status", "readBy")
	if err != nil {
		return nil
	}
	readBy := map[string]int64{}
	for pod, generation := range found {
		if number, ok := generation.(int64); ok {
			readBy[pod] = number
		}
	}
	return readBy
}

// writeStatus changes fields of the status.
func (s *Source) writeStatus(ctx context.Context, fields map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if _, err := s.Objects.Resource(Resource()).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status"); err != nil {
		return fmt.Errorf("patch status of NodePolicy %q: %w", name, err)
	}
	return nil
}
