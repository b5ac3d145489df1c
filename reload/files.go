// Package reload keeps the content of files current while a process runs. Mounted ConfigMaps and Secrets change without a restart.
package reload

import (
	"bytes"
	"context"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/contain"
)

// Files are files that belong together and what was made of them. While one is missing or bad, the last good value stays. Files are polled,
// since not every volume has notifications. Read and Run must not be called at the same time; Value and Err may always be called.
type Files[T any] struct {
	paths   []string
	parse   func(contents [][]byte) (T, error)
	changed func(T)     // called after each good change
	trouble func(error) // called for each new problem, and not again while it lasts; with nil once the last good files are back

	value atomic.Pointer[T]
	err   atomic.Pointer[error]
	good  [][]byte // what value was made of
}

// New returns Files that have not been read. Read and Run report changes and errors.
func New[T any](parse func(contents [][]byte) (T, error), changed func(T), trouble func(error), paths ...string) *Files[T] {
	return &Files[T]{paths: paths, parse: parse, changed: changed, trouble: trouble}
}

// Value returns what was made of the last good files; ok is false before there were any.
func (f *Files[T]) Value() (value T, ok bool) {
	if last := f.value.Load(); last != nil {
		return *last, true
	}
	return value, false
}

// Err returns why the files could not be used when they were read last.
func (f *Files[T]) Err() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Run reads the files, at once and again, until ctx is done.
func (f *Files[T]) Run(ctx context.Context, interval time.Duration) {
	wait.UntilWithContext(ctx, func(context.Context) { f.Read() }, interval)
}

// Read reads the files once.
func (f *Files[T]) Read() {
	err := contain.Call(f.read)
	if err == nil {
		f.err.Store(nil)
		return
	}
	if prev := f.err.Swap(&err); prev == nil || (*prev).Error() != err.Error() {
		f.trouble(err)
	}
}

func (f *Files[T]) read() error {
	var contents [][]byte
	for _, path := range f.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		contents = append(contents, content)
	}
	if f.good != nil && slices.EqualFunc(contents, f.good, bytes.Equal) {
		if f.Err() != nil {
			f.trouble(nil)
		}
		return nil
	}
	value, err := f.parse(contents)
	if err != nil {
		return err
	}
	f.good = nil // until the change is made: one that panics is made again
	f.value.Store(&value)
	f.changed(value)
	f.good = contents
	return nil
}
