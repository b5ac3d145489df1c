package check

import (
	"crypto/x509"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheBinaryHasRootsOfItsOwn(t *testing.T) {
	roots, err := embedded()
	require.NoError(t, err)
	assert.False(t, roots.Equal(x509.NewCertPool()))
}

func TestAMachineWithoutRootsGetsThoseOfTheBinary(t *testing.T) {
	current, err := embedded()
	require.NoError(t, err)
	machine := x509.NewCertPool()
	machine.AddCert(&x509.Certificate{Raw: []byte("a root")})
	for name, test := range map[string]struct {
		machine *x509.CertPool
		err     error
		roots   *x509.CertPool
	}{
		"a machine with roots":              {machine, nil, machine},
		"a machine without roots":           {x509.NewCertPool(), nil, current},
		"a machine whose roots are no file": {nil, errors.New("no file"), current},
	} {
		t.Run(name, func(t *testing.T) {
			roots, err := orEmbedded(test.machine, test.err)
			require.NoError(t, err)
			assert.True(t, roots.Equal(test.roots))
		})
	}
}
