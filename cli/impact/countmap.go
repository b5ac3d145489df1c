package impact

import "slices"

// firstNodes is how many Nodes are named of those that are counted.
const firstNodes = 5

// NodeCount is how many Nodes there are of a kind, and the first of them.
type NodeCount struct {
	Nodes int      `json:"nodes"`
	First []string `json:"first"`
}

func (n *NodeCount) add(node string) {
	n.Nodes++
	if len(n.First) < firstNodes {
		n.First = append(n.First, node)
	}
}

// countMap counts by key. Its size is bounded: clients and kubelets can make ever new labels.
type countMap[K comparable, V any] struct {
	counts  map[K]*V
	omitted int // what is left out
}

// entry returns the count of a key, which begins as given. It is nil if limit keys are counted already.
func (t *countMap[K, V]) entry(key K, limit int, initial V) *V {
	if count, known := t.counts[key]; known {
		return count
	}
	if len(t.counts) >= limit {
		t.omitted++
		return nil
	}
	if t.counts == nil {
		t.counts = map[K]*V{}
	}
	t.counts[key] = &initial
	return &initial
}

func (t *countMap[K, V]) sorted(compare func(a, b V) int) []V {
	all := make([]V, 0, len(t.counts))
	for _, count := range t.counts {
		all = append(all, *count)
	}
	slices.SortFunc(all, compare)
	return all
}
