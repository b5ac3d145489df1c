package contain

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Panic is the error of a function that panicked.
type Panic struct {
	Value string // what was given to panic
	Stack string
}

// Error leaves the stack out, which logs show by itself.
func (p *Panic) Error() string { return "panic: " + p.Value }

// LogValue shows the stack in logs.
func (p *Panic) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", p.Value), slog.String("stack", p.Stack))
}

// Call calls do. If do panics, the error is a [*Panic].
func Call(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{Value: fmt.Sprint(value), Stack: string(debug.Stack())}
		}
	}()
	return fn()
}

// IsPanic reports whether an error comes from a panic, and which.
func IsPanic(err error) (panicked *Panic, ok bool) { return errors.AsType[*Panic](err) }
