package doctor

// Read is what was found out about one thing. The zero value is not known.
type Read[T any] struct {
	Value  T
	Found  bool // the value counts
	Absent bool // the API server reports that there is no such thing

	// Unknown shows why it could not be found out, where it is neither found nor absent.
	Unknown Unknown
}

// Unknown shows why something could not be found out, and how it can be.
type Unknown struct {
	Why string
	Remedy
}

// Found returns a value that was read.
func Found[T any](value T) Read[T] { return Read[T]{Value: value, Found: true} }

// Absent returns an object that does not exist, by the API server's answer.
func Absent[T any]() Read[T] { return Read[T]{Absent: true} }

// NotKnown is something that could not be found out.
func NotKnown[T any](why Unknown) Read[T] { return Read[T]{Unknown: why} }

// asked reports whether it is known: either way.
func (r Read[T]) asked() bool { return r.Found || r.Absent }

// Few names the first of many and counts all.
type Few[T any] struct {
	All   int
	First []T
}

// mostNamed is how many of many are named.
const mostNamed = 10

// left returns how many are not named.
func (f Few[T]) left() int { return f.All - len(f.First) }

// Add counts one more, and reports whether it is named.
func (f *Few[T]) Add(one T) (named bool) {
	if f.All++; len(f.First) == mostNamed {
		return false
	}
	f.First = append(f.First, one)
	return true
}
