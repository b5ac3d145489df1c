package policy

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// Text returns a string as readers of JSON see it: each byte that is not UTF-8 is U+FFFD. A client that sends protobuf can store any
// bytes in most strings of a Node. The API server shows them to readers of protobuf as they are and to readers of JSON like
// this. Both must see the same, or a record would differ from its Node for ever.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s)) // strings.ToValidUTF8 has one U+FFFD for several bytes
}

// TextMap returns a map with the [Text] of each key and value: the same map where nothing differs. Of keys that become equal,
// the one with the greatest bytes counts.
func TextMap(m map[string]string) map[string]string {
	valid := true
	for key, value := range m {
		valid = valid && utf8.ValidString(key) && utf8.ValidString(value)
	}
	if valid {
		return m
	}
	texts := make(map[string]string, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		texts[Text(key)] = Text(m[key])
	}
	return texts
}

// Shortened returns the start of a string's [Text], in at most so many bytes.
func Shortened(s string, maximum int) string {
	s = Text(s)
	if len(s) <= maximum {
		return s
	}
	for !utf8.RuneStart(s[maximum]) {
		maximum--
	}
	return s[:maximum]
}
