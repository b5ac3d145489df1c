package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/keyutil"
)

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	full := born(t, func(s *state) {
		s.next, s.published = authority(t, day, birth), birth
		s.retired = []*x509.Certificate{authority(t, day, birth).cert}
	})
	for name, s := range map[string]state{
		"nothing":                {},
		"after a first start":    born(t),
		"with everything":        full,
		"a CA without its key":   born(t, func(s *state) { s.ca.key = nil }),
		"a leaf without a key":   born(t, func(s *state) { s.leaf.key = nil }),
		"a successor not out":    born(t, func(s *state) { s.next = authority(t, day, birth) }),
		"no serving certificate": born(t, func(s *state) { s.leaf = pair{} }),
	} {
		t.Run(name, func(t *testing.T) {
			data, err := encode(s)
			require.NoError(t, err)
			got, err := decode(data)
			require.NoError(t, err)
			assertSame(t, s, got)
		})
	}
}

func TestDecodeTakesTheGoodAndNamesTheBad(t *testing.T) {
	good, err := encode(born(t, func(s *state) { s.next = authority(t, day, birth) }))
	require.NoError(t, err)
	o, err := encode(born(t))
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	foreign, err := keyutil.MarshalPrivateKeyToPEM(p384)
	require.NoError(t, err)
	garbage := []byte("s3cret garbage")

	tests := map[string]struct {
		change map[string][]byte
		lost   func(*state)
		want   string
	}{
		"a bundle that is garbage takes the CA and its key with it": {
			change: map[string][]byte{"ca.crt": garbage}, lost: func(s *state) { s.ca = pair{} }, want: "parse ca.crt: ",
		},
		"a CA key that is garbage": {
			change: map[string][]byte{"ca.key": garbage}, lost: func(s *state) { s.ca.key = nil }, want: "parse ca.key: not an ECDSA P-256 private key",
		},
		"a CA key of another CA": {
			change: map[string][]byte{"ca.key": o["ca.key"]}, lost: func(s *state) { s.ca.key = nil }, want: "parse ca.key: it does not belong to ca.crt",
		},
		"a key on another curve": {
			change: map[string][]byte{"tls.key": foreign}, lost: func(s *state) { s.leaf.key = nil }, want: "parse tls.key: not an ECDSA P-256 private key",
		},
		"a missing key is no error, only missing": {
			change: map[string][]byte{"ca.key": nil}, lost: func(s *state) { s.ca.key = nil },
		},
		"empty values are as good as missing": {
			change: map[string][]byte{"tls.crt": {}, "tls.key": []byte("\n")}, lost: func(s *state) { s.leaf = pair{} },
		},
		"a serving certificate that is garbage": {
			change: map[string][]byte{"tls.crt": garbage}, lost: func(s *state) { s.leaf = pair{} }, want: "parse tls.crt: ",
		},
		"a leaf key of another leaf": {
			change: map[string][]byte{"tls.key": o["tls.key"]}, lost: func(s *state) { s.leaf.key = nil }, want: "parse tls.key: it does not belong to tls.crt",
		},
		"a serving certificate in the bundle is not trusted": {
			change: map[string][]byte{"ca.crt": append(bytes.Clone(good["ca.crt"]), good["tls.crt"]...)}, lost: func(*state) {},
		},
		"a successor that is no CA is dropped": {
			change: map[string][]byte{"next-ca.crt": good["tls.crt"], "next-ca.key": good["tls.key"]},
			lost:   func(s *state) { s.retired, s.next = []*x509.Certificate{s.next.cert}, pair{} },
		},
		"a mark that is no time": {
			change: map[string][]byte{"next-ca.published": garbage}, lost: func(*state) {}, want: "parse next-ca.published: not a time",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want, err := decode(good)
			require.NoError(t, err)
			tt.lost(&want)
			data := merge(nil, good)
			for k, v := range tt.change {
				data[k] = v
			}
			got, err := decode(data)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
				assert.NotContains(t, err.Error(), string(garbage))
			}
			assertSame(t, want, got)
		})
	}
}

func TestMergeReplacesOnlyOurKeys(t *testing.T) {
	current := map[string][]byte{"theirs": []byte("1"), "ca.crt": []byte("old"), "next-ca.key": []byte("old")}
	got := merge(current, map[string][]byte{"ca.crt": []byte("new")})
	assert.Equal(t, map[string][]byte{"theirs": []byte("1"), "ca.crt": []byte("new")}, got)
	assert.Len(t, current, 3, "the argument is left alone")
}

func TestAuthoritiesOccurOnce(t *testing.T) {
	s := born(t)
	s.next = s.ca
	s.retired = []*x509.Certificate{s.ca.cert, s.ca.cert}
	assert.Equal(t, []*x509.Certificate{s.ca.cert}, s.authorities())
}

func FuzzDecode(f *testing.F) {
	for _, d := range damaged(f) {
		f.Add(d["ca.crt"], d["ca.key"], d["tls.crt"], d["tls.key"], d["next-ca.crt"], d["next-ca.key"], d["next-ca.published"])
	}
	// No certificates are made in here: random keys would look like new ground to the fuzzer, at every run.
	f.Fuzz(func(t *testing.T, caCert, caKey, tlsCert, tlsKey, nextCert, nextKey, published []byte) {
		s, _ := decode(map[string][]byte{
			"ca.crt": caCert, "ca.key": caKey, "tls.crt": tlsCert, "tls.key": tlsKey,
			"next-ca.crt": nextCert, "next-ca.key": nextKey, "next-ca.published": published,
		})
		for _, p := range []pair{s.ca, s.next, s.leaf} {
			if p.key != nil {
				require.True(t, p.key.PublicKey.Equal(p.cert.PublicKey), "a key belongs to its certificate")
			}
		}
		if s.ca.cert == nil {
			return // is never written: every change begins with a CA
		}
		data, err := encode(s)
		require.NoError(t, err, "what was read can be written")
		reread, err := decode(data)
		require.NoError(t, err, "what was written can be read")
		assertSame(t, s, reread)
	})
}

func TestAnyDamageIsRepaired(t *testing.T) {
	for _, data := range damaged(t) {
		s, _ := decode(data)
		requireSettles(t, s, birth)
	}
}

// damaged returns data of a Secret in which each value in turn is missing, garbage, cut in half or that of another key.
func damaged(t testing.TB) []map[string][]byte {
	t.Helper()
	full, err := encode(born(t, func(s *state) {
		s.next, s.published = authority(t, day, birth), birth
		s.retired = []*x509.Certificate{authority(t, day, birth).cert}
	}))
	require.NoError(t, err)
	all := []map[string][]byte{nil, full}
	for key, value := range full {
		for _, v := range [][]byte{nil, []byte("garbage"), value[:len(value)/2], full["tls.crt"], full["tls.key"], full["ca.crt"]} {
			item := merge(nil, full)
			item[key] = v
			all = append(all, item)
		}
	}
	return all
}

func assertSame(t *testing.T, want, got state) {
	t.Helper()
	require.Len(t, got.authorities(), len(want.authorities()))
	for i, c := range want.authorities() {
		assert.True(t, c.Equal(got.authorities()[i]), "authority %d", i)
	}
	for name, p := range map[string][2]pair{"ca": {want.ca, got.ca}, "next": {want.next, got.next}, "leaf": {want.leaf, got.leaf}} {
		assert.True(t, p[0].cert.Equal(p[1].cert), "certificate of %s", name)
		require.Equal(t, p[0].key == nil, p[1].key == nil, "key of %s", name)
		assert.True(t, p[0].key == nil || p[0].key.Equal(p[1].key), "key of %s", name)
	}
	assert.True(t, want.published.Equal(got.published), "published %s, not %s", want.published, got.published)
}
