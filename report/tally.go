package report

// tally counts the Nodes in which something is equal, for maxGroups of such things.
type tally[T comparable] map[T]*group

// group is how many Nodes, and the first of them.
type group struct {
	nodes int
	first []string
}

func (t tally[T]) count(key T, node string) {
	all, known := t[key]
	if !known {
		if len(t) == maxGroups {
			return
		}
		all = &group{}
		t[key] = all
	}
	all.nodes++
	addFirst(&all.first, node)
}
