package certs

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRenewKeepsWhatIsStillTrusted(t *testing.T) {
	s := born(t)
	first := s.ca.cert

	s, err := renew(s, addSuccessor, wantedInTests, birth.Add(480*day))
	require.NoError(t, err)
	second := s.next.cert
	assert.Equal(t, []*x509.Certificate{first, second}, s.authorities(), "both are trusted")
	require.NoError(t, s.leaf.cert.CheckSignatureFrom(first), "the leaf is still the old one")

	s, err = renew(s, promoteSuccessor, wantedInTests, birth.Add(481*day))
	require.NoError(t, err)
	assert.Equal(t, []*x509.Certificate{second, first}, s.authorities(), "the same, the successor first")
	require.NoError(t, s.leaf.cert.CheckSignatureFrom(second))
	assert.Nil(t, s.next.cert)

	s, err = renew(s, issueLeaf, wantedInTests, birth.Add(719*day))
	require.NoError(t, err)
	assert.Contains(t, s.authorities(), first, "trusted until it expires")

	s, err = renew(s, issueLeaf, wantedInTests, birth.Add(720*day))
	require.NoError(t, err)
	assert.Equal(t, []*x509.Certificate{second}, s.authorities(), "gone when it has expired")
}

func TestRenewOfEverythingTrustsTheOldBundle(t *testing.T) {
	s := born(t, func(s *state) { s.ca.key, s.leaf = nil, pair{} })
	old := s.ca.cert
	s, err := renew(s, issueAll, wantedInTests, birth)
	require.NoError(t, err)
	assert.Equal(t, []*x509.Certificate{s.ca.cert, old}, s.authorities(), "other replicas still serve a leaf of the old CA")
}

func TestRenewReplacesASuccessorThatIsNoGood(t *testing.T) {
	s := born(t, func(s *state) { s.next, s.published = authority(t, day, birth), birth })
	s.next.key = nil
	bad := s.next.cert
	s, err := renew(s, addSuccessor, wantedInTests, birth)
	require.NoError(t, err)
	assert.True(t, s.published.IsZero(), "the new one has not been published")
	assert.Equal(t, []*x509.Certificate{s.ca.cert, s.next.cert, bad}, s.authorities())
}

func TestRenewLeavesItsArgumentAlone(t *testing.T) {
	retired := []*x509.Certificate{authority(t, time.Hour, birth).cert, authority(t, 2*day, birth).cert}
	s := born(t, func(s *state) { s.retired = append([]*x509.Certificate(nil), retired...) })
	_, err := renew(s, issueLeaf, wantedInTests, birth.Add(day))
	require.NoError(t, err)
	assert.Equal(t, retired, s.retired)
}
