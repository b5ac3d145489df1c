package certs

import (
	"crypto/x509"
	"strings"
	"time"
)

// backdate is how far before its creation a certificate becomes valid. So an API server whose clock is behind ours accepts it from the
// first second. The lifetime of a certificate counts from its creation, not from that earlier moment.
const backdate = time.Hour

// action is one change of the Secret.
type action string

const (
	keep             action = "keep"
	issueLeaf        action = "issue leaf"
	issueAll         action = "issue all"
	addSuccessor     action = "add successor"
	markPublished    action = "mark successor published"
	promoteSuccessor action = "promote successor"
)

// wanted is what the operator asked for.
type wanted struct {
	names            []string
	caLife, leafLife time.Duration
	grace            time.Duration // how long a successor is in every bundle before it signs
}

// decision is an action and why it is due.
type decision struct {
	action  action
	reasons []string
}

// decide returns the one change that s needs most. The caller makes it, then reads and decides again until nothing is left to do. If held,
// every webhook configuration, as read and not as just written, has exactly the bundle of s.
func decide(s state, w wanted, held bool, now time.Time) decision {
	var (
		unfit = unfitAuthority(s.ca.cert, now)
		lost  = s.ca.key == nil // the CA is still trusted, it can no longer sign
		dead  = unservable(s, now)
		due   = renewable(s, w, now)
		ready = s.next.key != nil && unfitAuthority(s.next.cert, now) == nil
	)
	// No verifier can use the CA, or it cannot sign the certificate that is needed now. Waiting would only lengthen the outage.
	replace := unfit != nil || lost && dead != nil
	switch {
	case replace && ready:
		return decision{promoteSuccessor, append(unfit, dead...)}
	case replace:
		return decision{issueAll, append(unfit, dead...)}
	case ready && held && published(s, now) && now.Sub(s.published) >= w.grace:
		return decision{promoteSuccessor, []string{"the successor has been in every bundle for the grace period"}}
	case !lost && (dead != nil || due != nil):
		return decision{issueLeaf, append(dead, due...)}
	case lost && !ready:
		return decision{addSuccessor, []string{"the key of the CA is missing or does not belong to it"}}
	case !ready && aged(s.ca.cert, now):
		return decision{addSuccessor, []string{"two thirds of the life of the CA are over"}}
	case ready && held && !published(s, now):
		return decision{markPublished, []string{"every configuration holds the successor"}}
	}
	return decision{action: keep}
}

// published says that s.published can be counted from. A time in the future comes from a clock ahead of ours or from a client: it is set again.
func published(s state, now time.Time) bool {
	return !s.published.IsZero() && !s.published.After(now)
}

// unfitAuthority returns why certificates signed by c would not verify. It checks that c signed itself, which shows that c may sign at all.
// A leaf from a CA that may not sign would be issued again at every check.
func unfitAuthority(c *x509.Certificate, now time.Time) []string {
	if c == nil {
		return []string{"the CA is missing or unreadable"}
	}
	reasons := outOfTime("the CA", c, now)
	if c.CheckSignatureFrom(c) != nil {
		reasons = append(reasons, "the CA is not a self-signed certificate that may sign others")
	}
	return reasons
}

// unservable returns why the leaf must not be served. Either a verifier that trusts the CA would refuse it, or the key is missing.
func unservable(s state, now time.Time) []string {
	c := s.leaf.cert
	if c == nil {
		return []string{"the serving certificate is missing or unreadable"}
	}
	reasons := outOfTime("the serving certificate", c, now)
	if s.leaf.key == nil {
		reasons = append(reasons, "the key of the serving certificate is missing or does not belong to it")
	}
	if s.ca.cert == nil || c.CheckSignatureFrom(s.ca.cert) != nil {
		reasons = append(reasons, "the serving certificate is not signed by the CA")
	}
	return reasons
}

// renewable returns why a leaf should be issued again although it can be served.
func renewable(s state, w wanted, now time.Time) []string {
	c := s.leaf.cert
	if c == nil || s.ca.cert == nil {
		return nil
	}
	var reasons []string
	// A leaf that lasts as long as its CA gains nothing. Without this condition, its last weeks would see ever shorter leaves.
	if aged(c, now) && c.NotAfter.Before(s.ca.cert.NotAfter) {
		reasons = append(reasons, "two thirds of the life of the serving certificate are over")
	}
	if missing := uncovered(c, w.names); len(missing) > 0 {
		reasons = append(reasons, "the serving certificate does not cover "+strings.Join(missing, ", "))
	}
	return reasons
}

// outOfTime also refuses a certificate that is not valid yet. Certificates are backdated by an hour, so a clock that was far ahead made it.
// It is of no use until that time.
func outOfTime(name string, c *x509.Certificate, now time.Time) []string {
	switch {
	case !now.Before(c.NotAfter):
		return []string{name + " has expired"}
	case now.Before(c.NotBefore):
		return []string{name + " is not valid yet"}
	}
	return nil
}

// aged says that two thirds of the life of c are over. The division comes first: twice the longest Duration does not fit one.
func aged(c *x509.Certificate, now time.Time) bool {
	made := c.NotBefore.Add(backdate)
	return !now.Before(made.Add(c.NotAfter.Sub(made) / 3 * 2))
}
