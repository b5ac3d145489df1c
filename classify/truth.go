package classify

// truth is a value of Kleene's three-valued logic. The order matters: and is the least, or the greatest.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func (t truth) and(other truth) truth { return min(t, other) }
func (t truth) or(other truth) truth  { return max(t, other) }

func truthOf(holds bool) truth {
	if holds {
		return yes
	}
	return no
}
