package capture

import (
	"encoding/binary"
	"maps"
	"slices"
)

// packing is text after text, each behind its length. Clients choose the texts, and none can be taken for structure. Equal
// values have equal bytes.
type packing []byte

func (p *packing) text(s string) { *p = append(binary.AppendUvarint(*p, uint64(len(s))), s...) }

// texts keeps nil apart from an empty list.
func (p *packing) texts(list []string) {
	p.count(len(list), list == nil)
	for _, s := range list {
		p.text(s)
	}
}

// byText keeps nil apart from an empty map.
func (p *packing) byText(m map[string]string) {
	p.count(len(m), m == nil)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		p.text(key)
		p.text(m[key])
	}
}

func (p *packing) flag(on bool) {
	if on {
		p.number(1)
	} else {
		p.number(0)
	}
}

func (p *packing) count(n int, none bool) {
	if none {
		n = -1
	}
	p.number(n + 1)
}

func (p *packing) number(n int) { *p = binary.AppendUvarint(*p, uint64(n)) }

// packed is a packing that is read in the order in which it was written.
type packed string

func (p *packed) text() string {
	length := p.number()
	text := (*p)[:length]
	*p = (*p)[length:]
	return string(text)
}

func (p *packed) texts() []string {
	count := p.count()
	if count < 0 {
		return nil
	}
	list := make([]string, count)
	for i := range list {
		list[i] = p.text()
	}
	return list
}

func (p *packed) byText() map[string]string {
	count := p.count()
	if count < 0 {
		return nil
	}
	m := make(map[string]string, count)
	for range count {
		key := p.text()
		m[key] = p.text()
	}
	return m
}

func (p *packed) flag() bool { return p.number() == 1 }

func (p *packed) count() int { return p.number() - 1 }

func (p *packed) number() (n int) {
	for shift := 0; ; shift += 7 {
		b := (*p)[0]
		*p = (*p)[1:]
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}
