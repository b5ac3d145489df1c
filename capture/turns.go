package capture

import "sync"

// turns lets one at a time deal with a name. The queue sees to that among workers; a sweep comes beside it.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{}
}

// take waits until the name is free, and takes it until release is called.
func (t *turns) take(name string) (release func()) {
	for {
		t.mu.Lock()
		busy, taken := t.taken[name]
		if !taken {
			if t.taken == nil {
				t.taken = map[string]chan struct{}{}
			}
			over := make(chan struct{})
			t.taken[name] = over
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.taken, name)
				t.mu.Unlock()
				close(over)
			}
		}
		t.mu.Unlock()
		<-busy
	}
}
