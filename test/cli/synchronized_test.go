package cli

import (
	"bytes"
	"sync"
)

// synchronized is what a running program has printed so far.
type synchronized struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *synchronized) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *synchronized) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
