package doctor

// Reading is what was found out about one thing. The zero value is not known.
type Reading[T any] struct {
	Value  T
	Found  bool // the value counts
	Absent bool // the API server reports that there is no such thing

	// Unknown shows why it could not be found out, where it is neither found nor absent.
	Unknown Unknown
}

// Unknown shows why something could not be found out, and how it can be.
type Unknown struct {
	Reason string
	Remedy
}

// Found returns a value that was read.
func Found[T any](value T) Reading[T] { return Reading[T]{Value: value, Found: true} }

// Absent returns an object that does not exist, by the API server's answer.
func Absent[T any]() Reading[T] { return Reading[T]{Absent: true} }

// NotKnown is something that could not be found out.
func NotKnown[T any](unknown Unknown) Reading[T] { return Reading[T]{Unknown: unknown} }

// isKnown reports whether it is known: either way.
func (r Reading[T]) isKnown() bool { return r.Found || r.Absent }

// Sample names the first of many and counts all.
type Sample[T any] struct {
	All   int
	First []T
}

// maxNamed is how many of many are named.
const maxNamed = 10

// left returns how many are not named.
func (s Sample[T]) left() int { return s.All - len(s.First) }

// Add counts one more, and reports whether it is named.
func (s *Sample[T]) Add(item T) (named bool) {
	if s.All++; len(s.First) == maxNamed {
		return false
	}
	s.First = append(s.First, item)
	return true
}
