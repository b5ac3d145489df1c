package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// Reason says why a source could not be read, for metrics.
type Reason string

// The reasons.
const (
	Connect     Reason = "connect"      // no connection, or it broke
	Timeout     Reason = "timeout"      // the source took too long
	Certificate Reason = "certificate"  // it could not prove who it is
	Credentials Reason = "credentials"  // the file of the token or of the authorities cannot be used
	Redirect    Reason = "redirect"     // it answered with a redirect
	Status      Reason = "status"       // it answered with another status than 200
	NotModified Reason = "not_modified" // it answered 304, and was not asked for that
	Encoding    Reason = "encoding"     // it compressed its answer
	TooLarge    Reason = "too_large"    // it has more than 64 MiB, or too much of it would be kept
	Truncated   Reason = "truncated"    // it ended before all of it was there
	Invalid     Reason = "invalid"      // it is no inventory
	Unreadable  Reason = "unreadable"   // the file or ConfigMap cannot be read
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{Connect, Timeout, Certificate, Credentials, Redirect, Status, NotModified, Encoding, TooLarge, Truncated, Invalid, Unreadable}
}

// Error is why a source could not be read.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failed(reason Reason, err error) error { return &Error{Reason: reason, Err: err} }

// ReasonOf returns why.
func ReasonOf(err error) Reason {
	var known *Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return reasonOfConnection(err)
}

// reasonOfConnection classifies how a request fails.
func reasonOfConnection(err error) Reason {
	var slow net.Error
	var unproved *tls.CertificateVerificationError
	var alert tls.AlertError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unproved), errors.As(err, &alert), errors.As(err, &noTLS):
		return Certificate
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return Timeout
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Truncated
	}
	return Connect
}
