package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// renew returns the state after a. It also drops expired CAs from the bundle. They do no harm until then, so no write is made for that
// alone.
func renew(s state, a action, w wanted, now time.Time) (state, error) {
	var err error
	switch a {
	case issueLeaf:
		s.leaf, err = newLeaf(s.ca, w.names, w.leafLife, now)
	case issueAll:
		s = state{retired: s.authorities()}
		if s.ca, err = newAuthority(w.caLife, now); err == nil {
			s.leaf, err = newLeaf(s.ca, w.names, w.leafLife, now)
		}
	case addSuccessor:
		s.retired = append(slices.Clone(s.retired), s.next.cert) // one that was no good; nil is skipped below
		s.published = time.Time{}
		s.next, err = newAuthority(w.caLife, now)
	case markPublished:
		s.published = now
	case promoteSuccessor:
		s = state{ca: s.next, retired: s.authorities()}
		s.leaf, err = newLeaf(s.ca, w.names, w.leafLife, now)
	}
	s.retired = slices.DeleteFunc(slices.Clone(s.retired), func(c *x509.Certificate) bool {
		return c == nil || !now.Before(c.NotAfter) || c.Equal(s.ca.cert)
	})
	return s, err
}
