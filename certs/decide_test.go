package certs

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDecide(t *testing.T) {
	late := birth.Add(481 * day) // the CA is aged
	successor := authority(t, wantedInTests.caLife, late)
	withSuccessor := func(published time.Time) func(*state) {
		return func(s *state) { s.next, s.published = successor, published }
	}
	freshLeaf := func(s *state) { s.leaf = leafOf(t, s.ca, late, wantedInTests.names...) }
	loseCAKey := func(s *state) { s.ca.key = nil }
	loseLeafKey := func(s *state) { s.leaf.key = nil }
	notSigning := *authority(t, wantedInTests.caLife, birth).cert
	notSigning.KeyUsage = x509.KeyUsageDigitalSignature

	tests := map[string]struct {
		state   state
		held    bool
		now     time.Time
		want    action
		reasons []string
	}{
		"an empty secret is filled": {
			now: birth, want: issueAll,
			reasons: []string{"the CA is missing or unreadable", "the serving certificate is missing or unreadable"},
		},
		"what was just made is kept": {state: born(t), held: true, now: birth, want: keep},
		"it is kept while no configuration holds it, that is not for the secret to mend": {state: born(t), now: birth, want: keep},
		"it is kept to the last second of two thirds of the leaf's life":                 {state: born(t), held: true, now: birth.Add(60*day - time.Second), want: keep},
		"then the leaf is issued again": {
			state: born(t), held: true, now: birth.Add(60 * day), want: issueLeaf,
			reasons: []string{"two thirds of the life of the serving certificate are over"},
		},
		"a leaf that has expired is issued again": {
			state: born(t), held: true, now: birth.Add(90 * day), want: issueLeaf,
			reasons: []string{"the serving certificate has expired", "two thirds of the life of the serving certificate are over"},
		},
		"a missing leaf is issued from the same CA": {
			state: born(t, func(s *state) { s.leaf = pair{} }), held: true, now: birth, want: issueLeaf,
			reasons: []string{"the serving certificate is missing or unreadable"},
		},
		"a leaf without its key is issued again": {
			state: born(t, loseLeafKey), held: true, now: birth, want: issueLeaf,
			reasons: []string{"the key of the serving certificate is missing or does not belong to it"},
		},
		"a leaf of another CA is issued again": {
			state: born(t, func(s *state) { s.leaf = leafOf(t, successor, birth, wantedInTests.names...) }), held: true, now: birth, want: issueLeaf,
			reasons: []string{"the serving certificate is not signed by the CA"},
		},
		"a leaf made by a clock far ahead is issued again": {
			state: born(t, func(s *state) { s.leaf = leafOf(t, s.ca, birth.Add(30*day), wantedInTests.names...) }), held: true, now: birth, want: issueLeaf,
			reasons: []string{"the serving certificate is not valid yet"},
		},
		"a clock that is an hour behind changes nothing": {state: born(t), held: true, now: birth.Add(-time.Hour), want: keep},
		"a leaf that lacks a name is issued again": {
			state: born(t, func(s *state) { s.leaf = leafOf(t, s.ca, birth, "127.0.0.1") }), held: true, now: birth, want: issueLeaf,
			reasons: []string{"the serving certificate does not cover nodekeep-webhook.nodekeep-system.svc"},
		},
		"a leaf with more names than wanted is kept": {
			state: born(t, func(s *state) { s.leaf = leafOf(t, s.ca, birth, append([]string{"more"}, wantedInTests.names...)...) }),
			held:  true, now: birth, want: keep,
		},
		"a leaf that ends with its CA is not issued again for its age": {
			state: born(t, func(s *state) { s.leaf = leafOf(t, s.ca, birth.Add(700*day), wantedInTests.names...) }, withSuccessor(time.Time{})),
			now:   birth.Add(719 * day), want: keep,
		},
		"an aged CA gets a successor": {
			state: born(t, freshLeaf), held: true, now: late, want: addSuccessor,
			reasons: []string{"two thirds of the life of the CA are over"},
		},
		"a leaf that is due comes before the successor": {state: born(t), held: true, now: late, want: issueLeaf, reasons: []string{
			"the serving certificate has expired", "two thirds of the life of the serving certificate are over",
		}},
		"a successor that has not reached the configurations waits": {state: born(t, freshLeaf, withSuccessor(time.Time{})), now: late, want: keep},
		"a successor that all configurations hold is marked": {
			state: born(t, freshLeaf, withSuccessor(time.Time{})), held: true, now: late, want: markPublished,
			reasons: []string{"every configuration holds the successor"},
		},
		"a mark in the future is set again": {
			state: born(t, freshLeaf, withSuccessor(late.Add(day))), held: true, now: late, want: markPublished,
			reasons: []string{"every configuration holds the successor"},
		},
		"a successor waits for the grace period": {
			state: born(t, freshLeaf, withSuccessor(late)), held: true, now: late.Add(10*time.Minute - time.Second), want: keep,
		},
		"a successor waits when a configuration lost the bundle meanwhile": {
			state: born(t, freshLeaf, withSuccessor(late)), now: late.Add(day), want: keep,
		},
		"a successor is promoted after the grace period": {
			state: born(t, freshLeaf, withSuccessor(late)), held: true, now: late.Add(10 * time.Minute), want: promoteSuccessor,
			reasons: []string{"the successor has been in every bundle for the grace period"},
		},
		"a successor without its key is made again": {
			state: born(t, freshLeaf, withSuccessor(late), func(s *state) { s.next.key = nil }), held: true, now: late.Add(day), want: addSuccessor,
			reasons: []string{"two thirds of the life of the CA are over"},
		},
		"a CA that lost its key gets a successor while its leaf serves on": {
			state: born(t, loseCAKey), held: true, now: birth, want: addSuccessor,
			reasons: []string{"the key of the CA is missing or does not belong to it"},
		},
		"a CA without its key does not try to renew the leaf": {
			state: born(t, loseCAKey, func(s *state) { s.next = authority(t, wantedInTests.caLife, birth) }), held: true, now: birth.Add(61 * day), want: markPublished,
			reasons: []string{"every configuration holds the successor"},
		},
		"a CA without its key and no leaf to serve is replaced at once": {
			state: born(t, loseCAKey, loseLeafKey), held: true, now: birth, want: issueAll,
			reasons: []string{"the key of the serving certificate is missing or does not belong to it"},
		},
		"an expired CA is replaced at once": {
			state: born(t, func(s *state) { s.leaf = leafOf(t, s.ca, birth.Add(700*day), wantedInTests.names...) }), held: true, now: birth.Add(720 * day), want: issueAll,
			reasons: []string{"the CA has expired", "the serving certificate has expired"},
		},
		"an expired CA gives way to its successor without waiting": {
			state: born(t, freshLeaf, withSuccessor(time.Time{})), now: birth.Add(720 * day), want: promoteSuccessor,
			reasons: []string{"the CA has expired", "the serving certificate has expired"},
		},
		"a CA from the future is replaced": {
			state: born(t), held: true, now: birth.Add(-day), want: issueAll,
			reasons: []string{"the CA is not valid yet", "the serving certificate is not valid yet"},
		},
		"a CA that may not sign is replaced": {
			state: born(t, func(s *state) { s.ca.cert = &notSigning }), held: true, now: birth, want: issueAll,
			reasons: []string{"the CA is not a self-signed certificate that may sign others", "the serving certificate is not signed by the CA"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := decide(tt.state, wantedInTests, tt.held, tt.now)
			assert.Equal(t, tt.want, got.action)
			assert.Equal(t, tt.reasons, got.reasons)
		})
	}
}

func TestEveryActionIsFollowedByKeep(t *testing.T) {
	for name, s := range map[string]state{
		"from nothing":                    {},
		"from a CA without key":           born(t, func(s *state) { s.ca.key = nil }),
		"from a CA and leaf without keys": born(t, func(s *state) { s.ca.key, s.leaf.key = nil, nil }),
		"from a bundle alone":             {retired: []*x509.Certificate{born(t).ca.cert}},
	} {
		t.Run(name, func(t *testing.T) { requireSettles(t, s, birth) })
	}
}
