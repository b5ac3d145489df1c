package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"sigs.k8s.io/yaml"
)

// fromYAML turns the policy file into JSON. A repeated field or a second document is a mistake that hides no other one;
// err is for what cannot be read at all.
func fromYAML(data []byte) (raw json.RawMessage, mistakes []error, err error) {
	raw, repeated := yaml.YAMLToJSONStrict(data)
	if repeated != nil {
		if raw, err = yaml.YAMLToJSON(data); err != nil {
			return nil, nil, err
		}
		mistakes = append(mistakes, repeated)
	}
	if severalDocuments(data) {
		// The parser would leave everything after the first one out without a word.
		mistakes = append(mistakes, errors.New("has more than one YAML document"))
	}
	return raw, mistakes, nil
}

// documentMark is the line that begins or ends a document; nothing inside one can look like that.
var documentMark = regexp.MustCompile(`^(---|\.\.\.)(\s|$)`)

// severalDocuments reports whether anything but comments follows the end of the first document.
func severalDocuments(data []byte) bool {
	content, ended := false, false
	for line := range bytes.Lines(data) {
		mark := documentMark.Find(line)
		ended = ended || content && mark != nil
		switch text := bytes.TrimSpace(line[len(mark):]); {
		case len(text) == 0 || text[0] == '#':
		case ended:
			return true
		case text[0] != '%': // a directive stands before the first document
			content = true
		}
	}
	return false
}
