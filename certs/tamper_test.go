package certs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	testingclock "k8s.io/utils/clock/testing"
)

func TestATamperedSecretIsMended(t *testing.T) {
	garbage := []byte("garbage")
	tests := map[string]struct {
		tamper func(map[string][]byte)
		sameCA bool // the old CA goes on, at least for now
		gap    bool // other replicas serve something unverifiable until their next look
	}{
		"all garbage": {tamper: func(d map[string][]byte) {
			for k := range d {
				d[k] = garbage
			}
		}, gap: true},
		"emptied":                       {tamper: func(d map[string][]byte) { clear(d) }, gap: true},
		"CA and its key gone":           {tamper: func(d map[string][]byte) { delete(d, "ca.crt"); delete(d, "ca.key") }, gap: true},
		"serving key of another":        {tamper: func(d map[string][]byte) { d["tls.key"] = d["ca.key"] }, sameCA: true},
		"serving certificate garbage":   {tamper: func(d map[string][]byte) { d["tls.crt"] = garbage }, sameCA: true},
		"CA key of another":             {tamper: func(d map[string][]byte) { d["ca.key"] = d["tls.key"] }, sameCA: true},
		"CA key and serving key gone":   {tamper: func(d map[string][]byte) { delete(d, "ca.key"); delete(d, "tls.key") }},
		"serving certificate for a CA":  {tamper: func(d map[string][]byte) { d["tls.crt"], d["tls.key"] = d["ca.crt"], d["ca.key"] }, sameCA: true},
		"the CA is a serving one's":     {tamper: func(d map[string][]byte) { d["ca.crt"], d["ca.key"] = d["tls.crt"], d["tls.key"] }, gap: true},
		"a successor that is garbage":   {tamper: func(d map[string][]byte) { d["next-ca.crt"], d["next-ca.key"] = garbage, garbage }, sameCA: true},
		"comments around the bundle":    {tamper: func(d map[string][]byte) { d["ca.crt"] = append([]byte("# mine\n"), d["ca.crt"]...) }, sameCA: true},
		"a key of another owner":        {tamper: func(d map[string][]byte) { d["theirs"] = garbage }, sameCA: true},
		"a bundle with a stray leaf":    {tamper: func(d map[string][]byte) { d["ca.crt"] = append(d["ca.crt"], d["tls.crt"]...) }, sameCA: true},
		"a serving certificate swapped": {tamper: func(d map[string][]byte) { d["tls.crt"] = d["ca.crt"] }, sameCA: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, clock, s := started(t, nil)
			o := c.replica(clock, nil)
			require.NoError(t, o.sync(t.Context()))
			old := c.state().ca.cert
			data := merge(c.secret().Data, c.secret().Data)
			tt.tamper(data)
			c.setData(data)

			require.NoError(t, s.sync(t.Context()))

			mended, _ := decode(c.secret().Data) // a garbage successor stays until the next write
			assert.Equal(t, tt.sameCA, mended.ca.cert.Equal(old))
			for _, bundle := range c.bundles() {
				requireVerifies(t, s, bundle, birth)
				if !tt.gap {
					requireVerifies(t, o, bundle, birth)
				}
			}
			require.NoError(t, o.sync(t.Context()))
			requireVerifies(t, o, c.bundles()[0], birth)
			assert.Equal(t, data["theirs"], c.secret().Data["theirs"])
			writes := c.writes
			require.NoError(t, s.sync(t.Context()))
			assert.Equal(t, writes, c.writes, "mended for good")
		})
	}
}

func TestACertificateThatWouldNotVerifyIsNotServed(t *testing.T) {
	denied := false
	c, clock, s := started(t, failing(&denied, errors.New("denied"), "update"))
	denied = true
	data := merge(nil, c.secret().Data)
	require.NoError(t, leafOf(t, authority(t, day, birth), birth, s.wanted.names...).encode(data, "tls.crt", "tls.key"))
	c.setData(data)

	require.Error(t, s.sync(t.Context()))
	requireVerifies(t, s, c.bundles()[0], birth) // the one it had

	fresh := c.replica(clock, nil)
	require.NoError(t, fresh.sync(t.Context()))
	requireVerifies(t, fresh, c.bundles()[0], birth)
}

func TestGarbageThatCannotBeReplacedIsReportedOnce(t *testing.T) {
	c := installed(t)
	c.setData(map[string][]byte{"ca.crt": []byte("garbage")})
	var log bytes.Buffer
	s := c.replica(testingclock.NewFakeClock(birth), failing(new(true), errors.New("read only"), "update"))
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		require.ErrorContains(t, s.sync(t.Context()), "read only")
	}
	assert.Equal(t, 1, strings.Count(log.String(), "secret holds data that cannot be used"))
}
