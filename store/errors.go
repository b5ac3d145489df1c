package store

import "errors"

// The errors that a caller may tell apart with [errors.Is].
var (
	// ErrNotFound says that there is no record of the Node.
	ErrNotFound = errors.New("no record")
	// ErrUnreadable says that there is one, but nothing may be taken from it, and it must not be overwritten.
	ErrUnreadable = errors.New("unreadable record")
	// ErrConflict says that somebody else wrote, created or removed the record since it was read: read it live and decide again.
	ErrConflict = errors.New("record changed meanwhile")
)
