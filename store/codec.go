package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxRecordBytes is the largest record that is read or written. A Node with 500 labels of the longest kind is below it;
// beyond it a ConfigMap (1 MiB) or the Node that it is restored to (1.5 MiB in etcd) would soon be refused.
const MaxRecordBytes = 512 << 10

// Encode is the record as it is stored: indented JSON in a stable order, so that people can read and compare it. Where all of it
// would be too large, its history gives way, the oldest first.
func Encode(r Record) ([]byte, error) {
	if r.HistoryLeftOut() {
		return nil, fmt.Errorf("encode record of node %q: its history would be lost, which was left out when it was read from memory; read it live", r.Node)
	}
	data, err := encodeWhole(r)
	for err == nil && len(data) > MaxRecordBytes && len(r.History) > 0 {
		r = r.lessHistory()
		data, err = encodeWhole(r)
	}
	if err != nil {
		return nil, fmt.Errorf("encode record of node %q: %w", r.Node, err)
	}
	if len(data) > MaxRecordBytes {
		return nil, fmt.Errorf("encode record of node %q: %d bytes are more than the %d that a record may have; let the policy keep fewer labels", r.Node, len(data), MaxRecordBytes)
	}
	return data, nil
}

func encodeWhole(r Record) ([]byte, error) {
	flat, err := json.Marshal(r.versioned())
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, flat, "", "  "); err != nil {
		return nil, err
	}
	return indented.Bytes(), nil
}

// Decode reads a record of the Node. A record that does not parse, is too large, is of a version too new to be
// understood, or names another Node is [ErrUnreadable]; the error says which.
func Decode(data []byte, node string) (Record, error) {
	r, err := decode(data, whole)
	return r.of(node, err)
}

// of is the record if it could be read and is the Node's.
func (r Record) of(node string, err error) (Record, error) {
	if err == nil && r.Node != node {
		err = fmt.Errorf("it is the record of node %q", r.Node)
	}
	if err != nil {
		return Record{}, fmt.Errorf("read record of node %q: %w: %w", node, ErrUnreadable, err)
	}
	return r, nil
}

func decode(data []byte, read reading) (Record, error) {
	if len(data) == 0 {
		return Record{}, errors.New("it is empty")
	}
	if len(data) > MaxRecordBytes {
		return Record{}, fmt.Errorf("its %d bytes are more than the %d that a record may have", len(data), MaxRecordBytes)
	}
	var r Record
	if err := r.unmarshal(data, read); err != nil {
		return Record{}, err
	}
	if r.Version < 1 || r.Version > Version+1 {
		return Record{}, fmt.Errorf("its version is %d; this nodekeep reads 1 to %d", r.Version, Version+1)
	}
	if at := r.DeletedAt; at != nil && (at.IsZero() || at.UTC().Year() < 1 || at.UTC().Year() > 9999) {
		return Record{}, errors.New("its deletedAt is out of range") // it could not be written as it was read
	}
	return r, nil
}
