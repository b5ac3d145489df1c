package main

import (
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
