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
	Reason string
	Remedy
}

// Found returns a value that was read.
func Found[T any](value T) Read[T] { return Read[T]{Value: value, Found: true} }

// Absent returns an object that does not exist, by the API server's answer.
func Absent[T any]() Read[T] { return Read[T]{Absent: true} }

// NotKnown is something that could not be found out.
func NotKnown[T any](unknown Unknown) Read[T] { return Read[T]{Unknown: unknown} }

// asked reports whether it is known: either way.
func (r Read[T]) asked() bool { return r.Found || r.Absent }

// Sample names the first of many and counts all.
type Sample[T any] struct {
	All   int
	First []T
}

// mostNamed is how many of many are named.
const mostNamed = 10

// left returns how many are not named.
func (f Sample[T]) left() int { return f.All - len(f.First) }

// Add counts one more, and reports whether it is named.
func (f *Sample[T]) Add(item T) (named bool) {
	if f.All++; len(f.First) == mostNamed {
		return false
	}
	f.First = append(f.First, item)
	return true
}
