package store

import (
	"errors"
	"fmt"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// Encode is the record as it is stored, see [record.Encode]. Where all of it would be too large, its history gives way, the oldest
// entries first.
func Encode(r record.Record) ([]byte, error) {
	data, err := record.Encode(r)
	for errors.Is(err, record.ErrTooLarge) {
		shorter, ok := history.Shortened(r)
		if !ok {
			break
		}
		r = shorter
		data, err = record.Encode(r)
	}
	return data, err
}

// Decode reads a record of the Node. A record that does not parse, is too large, is of a version too new to be
// understood, or names another Node is [ErrUnreadable]; the error says which.
func Decode(data []byte, node string) (record.Record, error) {
	r, err := record.Decode(data)
	return of(node, r, err)
}

// of is the record if it could be read and is the Node's.
func of(node string, r record.Record, err error) (record.Record, error) {
	if err == nil && r.Node != node {
		err = fmt.Errorf("it is the record of node %q", r.Node)
	}
	if err != nil {
		return record.Record{}, fmt.Errorf("read record of node %q: %w: %w", node, ErrUnreadable, err)
	}
	return r, nil
}
