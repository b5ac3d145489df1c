package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"

	"nodekeep.dev/nodekeep/verify"
)

// maxMessage bounds, in bytes, what a failure keeps of a text that a server sent.
const maxMessage = 2048

// failure is why a try did not pass.
type failure struct {
	reason  verify.Reason
	message string
}

func (f failure) Error() string { return f.message }

// failf returns a failure with a formatted message.
func failf(reason verify.Reason, format string, arguments ...any) failure {
	return failure{reason, fmt.Sprintf(format, arguments...)}
}

// failing returns the failure of an error, with a formatted text before its message.
func failing(err error, format string, arguments ...any) failure {
	failed := asFailure(err)
	failed.message = fmt.Sprintf(format, arguments...) + ": " + failed.message
	return failed
}

// asFailure names an error of the network, of TLS or of HTTP.
func asFailure(err error) failure {
	var named failure
	if errors.As(err, &named) {
		named.message = named.message[:min(len(named.message), maxMessage)]
		return named
	}
	var ofURL *url.Error
	if errors.As(err, &ofURL) { // it repeats the URL, which may have a password
		err = ofURL.Err
	}
	message := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		message = "no answer in time"
	}
	return failure{reasonOf(err), message[:min(len(message), maxMessage)]}
}

// dialFailure is [asFailure] for a message that names the host: net.OpError repeats an address. Which one was dialled for a name is kept.
func dialFailure(err error, host string) failure {
	failed := asFailure(err)
	var ofDial *net.OpError
	if !errors.As(err, &ofDial) || ofDial.Op != "dial" || ofDial.Addr == nil || ofDial.Err == nil || errors.Is(err, context.DeadlineExceeded) {
		return failed
	}
	if dialled, _, err := net.SplitHostPort(ofDial.Addr.String()); err == nil && dialled == host {
		failed.message = asFailure(ofDial.Err).message
	}
	return failed
}

func reasonOf(err error) verify.Reason {
	var (
		ofDNS         *net.DNSError
		ofNetwork     net.Error
		certificate   *tls.CertificateVerificationError
		notTLS        tls.RecordHeaderError
		alert         tls.AlertError
		ofRemote      *net.OpError
		ofCertificate = errors.As(err, &certificate)
	)
	switch {
	case errors.Is(err, errTooLarge):
		return verify.ReasonTooLarge
	case ofCertificate:
		return verify.ReasonCertificate
	case errors.As(err, &notTLS), errors.As(err, &alert), errors.As(err, &ofRemote) && ofRemote.Op == "remote error":
		return verify.ReasonTLS
	case errors.As(err, &ofDNS):
		return reasonOfDNS(ofDNS)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &ofNetwork) && ofNetwork.Timeout():
		return verify.ReasonTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return verify.ReasonRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EPERM):
		return verify.ReasonUnreachable
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return verify.ReasonReset
	}
	return verify.ReasonError
}

func reasonOfDNS(err *net.DNSError) verify.Reason {
	switch {
	case err.IsTimeout:
		return verify.ReasonTimeout
	case err.IsNotFound:
		return verify.ReasonNoSuchName
	case err.IsTemporary:
		return verify.ReasonServerFailure
	}
	return verify.ReasonBadAnswer
}
