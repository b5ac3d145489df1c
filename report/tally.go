package report

// tally counts the Nodes in which something is equal, for maxGroups of such things.
type tally[T comparable] map[T]*counted

// counted is how many Nodes, and the first of them.
type counted struct {
	nodes int
	first []string
}

func (t tally[T]) count(of T, node string) {
	group, known := t[of]
	if !known {
		if len(t) == maxGroups {
			return
		}
		group = &counted{}
		t[of] = group
	}
	group.nodes++
	addFirst(&group.first, node)
}
