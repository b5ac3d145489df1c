package archive

import (
	"encoding/json"
	"fmt"
	"io"

	"nodekeep.dev/nodekeep/store"
)

// Writer writes a file. It is whole only once Close has returned nil.
type Writer struct {
	encoder *json.Encoder
	records int
}

// NewWriter writes the head.
func NewWriter(w io.Writer) (*Writer, error) {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return &Writer{encoder: encoder}, encoder.Encode(head{APIVersion, Kind})
}

// Write adds a record, which must have been read live and whole.
func (w *Writer) Write(r store.Record) error {
	record, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record of node %q: %w", r.Node, err)
	}
	written := document{Record: record}
	if r.Quarantined != nil {
		if written.Quarantined, err = json.Marshal(*r.Quarantined); err != nil {
			return fmt.Errorf("encode quarantined record of node %q: %w", r.Node, err)
		}
		written.Accepted = r.Accepted
	}
	w.records++
	return w.encoder.Encode(written)
}

// Records is how many were written.
func (w *Writer) Records() int { return w.records }

// Close writes the end.
func (w *Writer) Close() error { return w.encoder.Encode(document{End: &end{w.records}}) }
