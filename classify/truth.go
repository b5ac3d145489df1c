package classify

// truth is a value of Kleene's three-valued logic. The order matters: and is the least, or the greatest.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func (t truth) and(o truth) truth { return min(t, o) }
func (t truth) or(o truth) truth  { return max(t, o) }

func truthOf(holds bool) truth {
	if holds {
		return yes
	}
	return no
}
