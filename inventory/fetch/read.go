package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"nodekeep.dev/nodekeep/inventory"
)

// Bounds of what is read.
const (
	MaxBytes = 64 << 20
	maxValue = 64 << 10 // what the decoder may hold of one value
)

var (
	errTooLarge  = fmt.Errorf("it has more than %d MiB", MaxBytes>>20)
	errLongValue = fmt.Errorf("one value has more than %d KiB", maxValue>>10)
)

// bounded ends a stream that has too many bytes, or a value that would fill the memory of the decoder.
type bounded struct {
	from    io.Reader
	decoder *json.Decoder
	read    int64
	err     error // of from
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read > MaxBytes {
		return 0, errTooLarge
	}
	if b.read-b.decoder.InputOffset() > maxValue {
		return 0, errLongValue
	}
	n, err := b.from.Read(p[:min(len(p), maxValue/2)])
	b.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// read decodes a whole stream. An error of the stream itself comes as it is.
func read(from io.Reader, source inventory.Source) (inventory.Snapshot, error) {
	b := &bounded{from: from}
	b.decoder = json.NewDecoder(b)
	next, err := inventory.Decode(b.decoder, source)
	if err == nil {
		if _, tailErr := b.decoder.Token(); !errors.Is(tailErr, io.EOF) {
			if err = tailErr; err == nil {
				err = errors.New("something follows the inventory")
			}
		}
	}
	switch {
	case b.err != nil:
		return inventory.Snapshot{}, b.err
	case errors.Is(err, errTooLarge), errors.Is(err, inventory.ErrKeepsTooMuch):
		return inventory.Snapshot{}, failed(TooLarge, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return inventory.Snapshot{}, failed(Invalid, errors.New("it ends too early"))
	case err != nil:
		return inventory.Snapshot{}, failed(Invalid, err)
	}
	return next, nil
}
