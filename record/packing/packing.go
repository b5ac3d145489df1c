// Package packing writes values into one string, so that many of them take little memory. It is pure.
package packing

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Writer appends values, each text behind its length. Clients choose the texts, and none can be taken for structure. Equal
// values have equal bytes.
type Writer []byte

// Text appends a text.
func (p *Writer) Text(s string) { *p = append(binary.AppendUvarint(*p, uint64(len(s))), s...) }

// Texts keeps nil apart from an empty list.
func (p *Writer) Texts(list []string) {
	p.count(len(list), list == nil)
	for _, s := range list {
		p.Text(s)
	}
}

// ByText keeps nil apart from an empty map.
func (p *Writer) ByText(m map[string]string) {
	p.count(len(m), m == nil)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p.Text(key)
		p.Text(m[key])
	}
}

// Flag appends yes or no.
func (p *Writer) Flag(enabled bool) {
	if enabled {
		p.Number(1)
	} else {
		p.Number(0)
	}
}

func (p *Writer) count(n int, null bool) {
	if null {
		n = -1
	}
	p.Number(uint64(n + 1))
}

// Number appends a number.
func (p *Writer) Number(n uint64) { *p = binary.AppendUvarint(*p, n) }

// Reader reads what a Writer has written, in the same order. It panics where that holds something else.
type Reader string

// Text returns the next text. It shares memory with the whole.
func (p *Reader) Text() string {
	length := p.Number()
	text := (*p)[:length]
	*p = (*p)[length:]
	return string(text)
}

// Texts returns the next list of texts.
func (p *Reader) Texts() []string {
	count := p.count()
	if count < 0 {
		return nil
	}
	list := make([]string, count)
	for i := range list {
		list[i] = p.Text()
	}
	return list
}

// ByText returns the next map.
func (p *Reader) ByText() map[string]string {
	count := p.count()
	if count < 0 {
		return nil
	}
	m := make(map[string]string, count)
	for range count {
		key := p.Text()
		m[key] = p.Text()
	}
	return m
}

// Flag returns the next yes or no.
func (p *Reader) Flag() bool { return p.Number() == 1 }

func (p *Reader) count() int { return int(p.Number()) - 1 }

// Number returns the next number.
func (p *Reader) Number() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := (*p)[0]
		*p = (*p)[1:]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}
