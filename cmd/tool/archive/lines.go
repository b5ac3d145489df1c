package archive

import "io"

// lines reads, and tells in which line an offset is. Offsets must be asked for in their order.
type lines struct {
	from   io.Reader
	read   int64
	breaks []int64 // offsets of line breaks that were read and not asked for yet
	line   int     // the line at which breaks begins
}

func (l *lines) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			l.breaks = append(l.breaks, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// at is the line of an offset; the first is 1.
func (l *lines) at(offset int64) int {
	for len(l.breaks) > 0 && l.breaks[0] < offset {
		l.breaks = l.breaks[1:]
		l.line++
	}
	return l.line
}

// last is the line at which the file ends.
func (l *lines) last() int { return l.at(l.read) }
