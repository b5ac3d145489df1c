package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestADNSServerAnswersForItsNamesAndIsAsBrokenAsItsZoneSays(t *testing.T) {
	names := map[string][]string{"kubernetes.default.svc.cluster.local.": {"10.96.0.1"}}
	for name, test := range map[string]struct {
		fault, asked string
		kind         uint16
		code, found  int
	}{
		"a name":                                {asked: "kubernetes.default.svc.cluster.local.", kind: dns.TypeA, code: dns.RcodeSuccess, found: 1},
		"the same name in other letters":        {asked: "Kubernetes.Default.svc.cluster.local.", kind: dns.TypeA, code: dns.RcodeSuccess, found: 1},
		"an address of a type that it has not":  {asked: "kubernetes.default.svc.cluster.local.", kind: dns.TypeAAAA, code: dns.RcodeSuccess},
		"a name that it does not know":          {asked: "kubernetes.default.svc.", kind: dns.TypeA, code: dns.RcodeNameError},
		"a server that fails knows no name":     {fault: failureFault, asked: "kubernetes.default.svc.cluster.local.", kind: dns.TypeA, code: dns.RcodeServerFailure},
		"a server that fails denies no name so": {fault: failureFault, asked: "kubernetes.default.svc.", kind: dns.TypeA, code: dns.RcodeServerFailure},
	} {
		t.Run(name, func(t *testing.T) {
			reply := zone{Names: names, Fault: test.fault}.answer(new(dns.Msg).SetQuestion(test.asked, test.kind))
			require.NotNil(t, reply)
			assert.Equal(t, test.code, reply.Rcode)
			assert.Len(t, reply.Answer, test.found)
		})
	}
	assert.Nil(t, zone{Names: names, Fault: muteFault}.answer(new(dns.Msg).SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)))
}

func TestAPodsResolverIsWhatTheKubeletAsksFor(t *testing.T) {
	config := &cri.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.cluster.local", "svc.cluster.local"}, Options: []string{"ndots:5", "timeout:1"}}
	assert.Equal(t, "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local\noptions ndots:5 timeout:1\n", string(resolver(config)))
	assert.Empty(t, resolver(nil))
}

func TestFaultsAreReadFromAFileThatMayBeMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults.json")
	broken, err := faultsFile(path).read()
	require.NoError(t, err)
	assert.Equal(t, faults{}, broken)

	require.NoError(t, os.WriteFile(path, []byte(`{"lost":["10.96.0.1/32","10.244.0.0/24"],"noImage":true}`), 0o600))
	broken, err = faultsFile(path).read()
	require.NoError(t, err)
	assert.True(t, broken.NoImage)
	assert.Equal(t, "[10.96.0.1/32 10.244.0.0/24]", fmt.Sprint(broken.Lost))

	require.NoError(t, os.WriteFile(path, []byte(`{"lost":["everywhere"]}`), 0o600))
	_, err = faultsFile(path).read()
	require.ErrorContains(t, err, "everywhere")
}
