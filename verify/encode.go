package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// messageLengths returns the limits, in bytes, to which messages are cut, one after the other, until a report fits.
func messageLengths() []int { return []int{1024, 512, 256, 128, 64} }

// Encode returns the report as JSON of at most limit bytes ([ReportLimit]). Required failures come first, then other failures, skipped and passed results.
// If the report is too long, messages are cut. If that is not enough, results that are not failures are omitted from the end, and counted. At last no
// result keeps its message, and as many results stay as fit. A limit below 32 bytes has no room for an empty report.
func (r Report) Encode(limit int) string {
	ordered := slices.Clone(r.Results)
	slices.SortStableFunc(ordered, func(a, b Result) int { return a.rank() - b.rank() })
	for i := range ordered {
		ordered[i].Message = Clean(ordered[i].Message)
	}
	shortest := 0
	for _, shortest = range messageLengths() {
		if text, ok := (Report{withMessages(ordered, shortest, shortest), r.Omitted}).encode(limit); ok {
			return text
		}
	}
	failures := 0
	for failures < len(ordered) && ordered[failures].Outcome == Failed {
		failures++
	}
	if text, ok := longestWithin(limit, withMessages(ordered, shortest, 0), failures, r.Omitted); ok {
		return text
	}
	text, _ := longestWithin(limit, withMessages(ordered, 0, 0), 0, r.Omitted)
	return text
}

// withMessages returns the results with the messages of failures and of all others cut to these lengths in bytes.
func withMessages(results []Result, ofFailures, ofOthers int) []Result {
	results = slices.Clone(results)
	for i := range results {
		length := ofOthers
		if results[i].Outcome == Failed {
			length = ofFailures
		}
		results[i].Message = cut(results[i].Message, length)
	}
	return results
}

// longestWithin omits results from the end until the report fits; at least the first ones stay.
func longestWithin(limit int, results []Result, minimum, omitted int) (text string, ok bool) {
	for end := len(results); end >= minimum && !ok; end-- {
		text, ok = Report{results[:end], omitted + len(results) - end}.encode(limit)
	}
	return text, ok
}

func (r Report) encode(limit int) (string, bool) {
	if r.Results == nil {
		r.Results = []Result{}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // would take six bytes for each <, > and &
	err := encoder.Encode(r)
	encoded := strings.TrimSuffix(text.String(), "\n")
	return encoded, err == nil && len(encoded) <= limit
}

// toJSON returns a value of this package as JSON. All of them are texts, numbers and times of our own, which cannot fail.
func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("marshal " + err.Error())
	}
	return string(text)
}

// hash names values by so many bytes of their hash. A format quotes texts, so that no two lists of values are the same text.
func hash(length int, format string, values ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, format, values...))
	return hex.EncodeToString(sum[:length])
}

// Clean returns a text on one line, safe to show. Each run of white space, control, format (bidirectional ones too) or broken characters becomes one
// space.
func Clean(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// Shorten makes a text fit for the annotation: [Clean], and not too long.
func Shorten(text string) string { return cut(Clean(text), maxMessage) }

// cut shortens a text to a length in bytes and never within a character.
func cut(text string, length int) string {
	const mark = "..."
	if len(text) <= length {
		return text
	}
	if length < len(mark) {
		return ""
	}
	end := length - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
