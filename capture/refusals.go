package capture

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// roundsBeforeKeyByKey is how often a give-back is refused as a whole before each of its labels is tried alone.
const roundsBeforeKeyByKey = 3

// refusals remembers what the API server would not have on which Node object, so that it is not asked for ever. It is in
// memory only: a restart or a new policy asks again.
type refusals struct {
	mu    sync.Mutex
	nodes map[nodeObject]*refusal
}

type nodeObject struct {
	name string
	uid  types.UID
}

type refusal struct {
	rounds int
	keys   map[string]bool
}

func newRefusals() *refusals { return &refusals{nodes: map[nodeObject]*refusal{}} }

// count notes one more refusal of a whole patch and says how many there were.
func (r *refusals) count(name string, uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.entry(name, uid)
	of.rounds++
	return of.rounds
}

func (r *refusals) add(name string, uid types.UID, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entry(name, uid).keys[key] = true
}

// of is a copy of the keys refused on an object; nil where there are none.
func (r *refusals) of(name string, uid types.UID) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, known := r.nodes[nodeObject{name, uid}]
	if !known || len(of.keys) == 0 {
		return nil
	}
	keys := make(map[string]bool, len(of.keys))
	for key := range of.keys {
		keys[key] = true
	}
	return keys
}

func (r *refusals) forget(name string, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, nodeObject{name, uid})
}

func (r *refusals) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.nodes)
}

func (r *refusals) entry(name string, uid types.UID) *refusal {
	of, known := r.nodes[nodeObject{name, uid}]
	if !known {
		of = &refusal{keys: map[string]bool{}}
		r.nodes[nodeObject{name, uid}] = of
	}
	return of
}
