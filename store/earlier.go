package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// maxEarlier is how many bytes the records of machines that had the name before take. With the record and a quarantined one they fit in a
// ConfigMap, which has 1 MiB at most.
const maxEarlier = 192 << 10

// earlier is one of them. What an operator has not accepted of it waits still.
type earlier struct {
	Record json.RawMessage `json:"record"`
	Waits  json.RawMessage `json:"waits,omitempty"`
}

// encodeEarlier is their text. Where it would be too long, their histories give way, but for the number of the last change. Then a record gives way
// that alone is too long, then the first ones.
func encodeEarlier(records []record.Record) (text string, err error) {
	for _, changes := range []bool{true, false} {
		if text, err = earlierText(records, changes); err == nil && len(text) <= maxEarlier || err != nil && !errors.Is(err, record.ErrTooLarge) {
			return text, err
		}
	}
	first := slices.IndexFunc(records, func(r record.Record) bool {
		name, err := earlierText([]record.Record{r}, false)
		return err != nil || len(name) > maxEarlier
	})
	first = max(first, 0)
	return encodeEarlier(slices.Delete(slices.Clone(records), first, first+1))
}

func earlierText(records []record.Record, changes bool) (string, error) {
	if len(records) == 0 {
		return "", nil
	}
	written := make([]earlier, len(records))
	for i, r := range records {
		shown := func(r record.Record) record.Record { return r }
		if !changes {
			shown = withoutChanges
		}
		var err error
		if written[i].Record, err = record.Encode(shown(r)); err == nil && r.Quarantined != nil {
			written[i].Waits, err = record.Encode(shown(*r.Quarantined))
		}
		if err != nil {
			return "", fmt.Errorf("encode record of a machine before: %w", err)
		}
	}
	text, err := json.Marshal(written)
	return string(text), err
}

// withoutChanges returns the record with as little of its history as can be. The number of the last change stays, so that it is not given again.
func withoutChanges(r record.Record) record.Record {
	for shorter, ok := history.Shortened(r); ok; shorter, ok = history.Shortened(r) {
		r = shorter
	}
	if len(history.Changes(r)) == 0 { // nothing of it can be read
		r.History = nil
	}
	return r
}

// decodeEarlier reads the records of machines that had the name before.
func decodeEarlier(text, node string) (records []record.Record, err error) {
	if text == "" {
		return nil, nil
	}
	var written []earlier
	if err := json.Unmarshal([]byte(text), &written); err != nil {
		return nil, err
	}
	if len(written) > record.MaxEarlier {
		return nil, fmt.Errorf("%d records are more than the %d that are kept", len(written), record.MaxEarlier)
	}
	for _, entry := range written {
		r, err := decodeOther(entry.Record, node)
		if err != nil {
			return nil, err
		}
		if len(entry.Waits) > 0 {
			waits, err := decodeOther(entry.Waits, node)
			if err != nil {
				return nil, err
			}
			r.Quarantined = &waits
		}
		records = append(records, r)
	}
	return records, nil
}
