package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nodekeep.dev/nodekeep/store"
)

// Entry is a record of a file, and where it stands.
type Entry struct {
	Place
	Record store.Record
}

// Place is where a record stands, to read it again.
type Place struct {
	Node   string
	Line   int
	Offset int64
	Length int
}

// Mistake is something wrong in a file.
type Mistake struct {
	Line int
	Node string // empty where it is not about a record
	What string
}

func (m Mistake) Error() string {
	if m.Node == "" {
		return fmt.Sprintf("line %d: %s", m.Line, m.What)
	}
	return fmt.Sprintf("line %d: node %q: %s", m.Line, m.Node, m.What)
}

// Read goes through the records of a file. Errors are a [Mistake] each, and the reading goes on behind them as far as it can, or
// what is wrong with the reader. Only a file without any is whole.
func Read(from io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := &reader{lines: &lines{from: from, line: 1}, seen: map[string]int{}}
		r.decoder = jsontext.NewDecoder(r.lines)
		r.read(yield)
	}
}

// ReadAt reads a record again that was read before.
func ReadAt(file io.ReaderAt, p Place) (store.Record, error) {
	raw := make([]byte, p.Length)
	if _, err := file.ReadAt(raw, p.Offset); err != nil {
		return store.Record{}, fmt.Errorf("read record of node %q at line %d again: %w", p.Node, p.Line, err)
	}
	record, wrong := recordOf(raw)
	if len(wrong) > 0 || record.Node != p.Node {
		return store.Record{}, fmt.Errorf("read record of node %q at line %d again: the file has changed meanwhile", p.Node, p.Line)
	}
	return record, nil
}

type reader struct {
	lines   *lines
	decoder *jsontext.Decoder
	seen    map[string]int // lines of the records, by Node
	count   int
}

// next is the next object, and where it begins.
func (r *reader) next() (raw jsontext.Value, line int, offset int64, err error) {
	raw, err = r.decoder.ReadValue()
	if err != nil {
		var wrong *jsontext.SyntacticError
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, r.lines.last(), 0, Mistake{Line: r.lines.last(), What: "the file ends in the middle of an object: it was cut off"}
		case errors.As(err, &wrong):
			return nil, r.lines.at(wrong.ByteOffset), 0, Mistake{Line: r.lines.at(wrong.ByteOffset), What: wrong.Err.Error()}
		default:
			return nil, 0, 0, err
		}
	}
	offset = r.decoder.InputOffset() - int64(len(raw))
	return raw, r.lines.at(offset), offset, nil
}

func (r *reader) read(yield func(Entry, error) bool) {
	if err := r.head(); err != nil {
		yield(Entry{}, err)
		return
	}
	for {
		raw, line, offset, err := r.next()
		switch {
		case err == io.EOF: //nolint:errorlint // nothing wraps it
			yield(Entry{}, Mistake{Line: r.lines.last(), What: "the end is missing that says how many records there are: the file was cut off"})
			return
		case err != nil:
			yield(Entry{}, err)
			return
		}
		if ending, is := endOf(raw); is {
			r.end(ending, line, yield)
			return
		}
		r.count++
		record, wrong := recordOf(raw)
		if before, twice := r.seen[record.Node]; twice && record.Node != "" {
			wrong = append(wrong, fmt.Sprintf("it is there twice, first at line %d", before))
		}
		r.seen[record.Node] = line
		for _, what := range wrong {
			if !yield(Entry{}, Mistake{Line: line, Node: record.Node, What: what}) {
				return
			}
		}
		if len(wrong) == 0 && !yield(Entry{Place{record.Node, line, offset, len(raw)}, record}, nil) {
			return
		}
	}
}

// head reads what the file says of itself.
func (r *reader) head() error {
	raw, line, _, err := r.next()
	var found head
	switch {
	case err == io.EOF: //nolint:errorlint // nothing wraps it
		return Mistake{Line: 1, What: "the file is empty"}
	case errors.As(err, &Mistake{}):
		return fmt.Errorf("this is no export of nodekeep's: %w", err)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(raw, &found); err != nil || found.Kind != Kind {
		return Mistake{Line: line, What: fmt.Sprintf("this is no export of nodekeep's: it does not begin with an object of kind %s", Kind)}
	}
	if found.APIVersion != APIVersion {
		return Mistake{Line: line, What: fmt.Sprintf("apiVersion %q: this nodekeep reads %s", found.APIVersion, APIVersion)}
	}
	return nil
}

// end checks that nothing is missing and nothing follows.
func (r *reader) end(ending end, line int, yield func(Entry, error) bool) {
	if ending.Records != r.count && !yield(Entry{}, Mistake{Line: line, What: fmt.Sprintf("the file has %d records and should have %d: some are missing or were added; if that was on purpose, mend the number here", r.count, ending.Records)}) {
		return
	}
	switch _, line, _, err := r.next(); {
	case err == io.EOF: //nolint:errorlint // nothing wraps it
	case err != nil:
		yield(Entry{}, err)
	default:
		yield(Entry{}, Mistake{Line: line, What: "something follows the end"})
	}
}

func endOf(raw jsontext.Value) (ending end, is bool) {
	var found document
	if err := json.Unmarshal(raw, &found); err != nil || found.End == nil {
		return end{}, false
	}
	return *found.End, true
}
