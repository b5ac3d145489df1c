package check_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

func TestDNSAnswersAreDistinguished(t *testing.T) {
	services := map[string]verify.Target{
		"default/kubernetes": {ClusterIPs: []string{"10.96.0.1", "fd00::1"}},
		"default/headless":   {ClusterIPs: []string{"None"}},
	}
	for name, test := range map[string]struct {
		answer  func(*dns.Msg, bool) *dns.Msg
		name    string
		reason  verify.Reason // empty for one that passes
		message string
	}{
		"a name with an address passes":                    {withAddresses(map[string][]string{"example.com.": {"192.0.2.1"}}), "example.com.", "", ""},
		"a name with an IPv6 address alone passes":         {withAddresses(map[string][]string{"example.com.": {"2001:db8::1"}}), "example.com.", "", ""},
		"a relative name is tried with the search domains": {withAddresses(map[string][]string{"kubernetes.default.svc.": {"10.96.0.1"}}), "kubernetes.default.svc", "", ""},
		"a Service's ClusterIP passes":                     {withAddresses(map[string][]string{"kubernetes.": {"10.96.0.1"}}), "kubernetes.default.svc.cluster.local.", "", ""},
		"both ClusterIPs pass":                             {withAddresses(map[string][]string{"kubernetes.": {"fd00::1", "10.96.0.1"}}), "kubernetes.default.svc.", "", ""},
		"another address of a Service is wrong":            {withAddresses(map[string][]string{"kubernetes.": {"192.0.2.66"}}), "kubernetes.default.svc.", verify.ReasonWrongAnswer, "answered 192.0.2.66, must be 10.96.0.1 or fd00::1"},
		"another address next to the ClusterIP is wrong":   {withAddresses(map[string][]string{"kubernetes.": {"10.96.0.1", "192.0.2.66"}}), "kubernetes.default.svc.", verify.ReasonWrongAnswer, "answered 192.0.2.66"},
		"a Service that is not known is not compared":      {withAddresses(map[string][]string{"other.": {"192.0.2.66"}}), "other.default.svc.", "", ""},
		"a headless Service is not compared":               {withAddresses(map[string][]string{"headless.": {"192.0.2.66"}}), "headless.default.svc.", "", ""},
		"a name without an address does not exist":         {withAddresses(map[string][]string{"example.com.": nil}), "example.com.", verify.ReasonNoSuchName, "example.com. has no address"},
		"NXDOMAIN":                    {withCode(dns.RcodeNameError), "example.com.", verify.ReasonNoSuchName, "answered NXDOMAIN"},
		"SERVFAIL":                    {withCode(dns.RcodeServerFailure), "example.com.", verify.ReasonServerFailure, "answered SERVFAIL"},
		"REFUSED":                     {withCode(dns.RcodeRefused), "example.com.", verify.ReasonRefused, "answered REFUSED"},
		"any other code is no answer": {withCode(dns.RcodeNotImplemented), "example.com.", verify.ReasonBadAnswer, "answered with code 4"},
		"no answer":                   {mute, "example.com.", verify.ReasonTimeout, "sent no answer in time"},
		"SERVFAIL is not hidden by a later NXDOMAIN":  {servfailThenNoSuchName(), "example.com.", verify.ReasonServerFailure, "answered SERVFAIL"},
		"an answer to another question is none":       {otherIdentifier, "example.com.", verify.ReasonBadAnswer, "sent no answer to the question"},
		"a question sent back is no answer":           {echo, "example.com.", verify.ReasonBadAnswer, "sent no answer to the question"},
		"a cut answer is asked for over TCP":          {cutOverUDP(withAddresses(map[string][]string{"example.com.": {"192.0.2.1"}})), "example.com.", "", ""},
		"a cut answer whose TCP is mute":              {cutOverUDP(mute), "example.com.", verify.ReasonTimeout, "sent no answer in time"},
		"SERVFAIL over TCP":                           {cutOverUDP(withCode(dns.RcodeServerFailure)), "example.com.", verify.ReasonServerFailure, "answered SERVFAIL"},
		"a huge answer over TCP passes":               {cutOverUDP(manyAddresses(3000)), "example.com.", "", ""},
		"a chain of names without end has no address": {aliasOfItself, "example.com.", verify.ReasonNoSuchName, "example.com. has no address"},
		"an address instead of a name asks nobody":    {withCode(dns.RcodeServerFailure), "192.0.2.1", verify.ReasonError, "no DNS server was asked"},
		"a name of /etc/hosts asks nobody":            {withCode(dns.RcodeServerFailure), "localhost", verify.ReasonError, "no DNS server was asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := ask(t, podWithDNS(dnsServer(t, test.answer)), test.reason, verify.Check{DNS: &verify.DNS{Names: []string{test.name}}}, verify.Task{Services: services})
			assert.Equal(t, test.reason == "", result.Outcome == verify.Passed)
			assert.Contains(t, result.Message, test.message)
		})
	}
}

func TestAllNamesMustResolve(t *testing.T) {
	server := dnsServer(t, withAddresses(map[string][]string{"a.example.com.": {"192.0.2.1"}}))
	result := ask(t, podWithDNS(server), verify.ReasonNoSuchName, verify.Check{DNS: &verify.DNS{Names: []string{"a.example.com.", "b.example.com."}}}, verify.Task{})
	assert.Contains(t, result.Message, "b.example.com.")
}

func TestEachServerIsAsked(t *testing.T) {
	names := []string{"example.com."}
	answers := withAddresses(map[string][]string{"example.com.": {"192.0.2.1"}})
	good, second, silent, failing := dnsServer(t, answers), dnsServer(t, answers), dnsServer(t, mute), dnsServer(t, withCode(dns.RcodeServerFailure))
	closed := closedPort(t)
	for name, test := range map[string]struct {
		resolver  string
		endpoints []string
		servers   verify.Servers
		reason    verify.Reason
		message   string
	}{
		"all answer": {good, []string{good, second}, verify.EachServer, "", ""},
		"one is mute, which the Pod's resolver hides":     {good, []string{second, silent}, verify.EachServer, verify.ReasonTimeout, silent + " sent no answer in time (1 of 3 DNS servers failed)"},
		"the first is mute":                               {good, []string{silent, second}, verify.EachServer, verify.ReasonTimeout, silent + " sent no answer in time (1 of 3 DNS servers failed)"},
		"one answers SERVFAIL":                            {good, []string{second, failing}, verify.EachServer, verify.ReasonServerFailure, failing + " answered SERVFAIL (1 of 3 DNS servers failed)"},
		"nothing listens at one":                          {good, []string{closed, second}, verify.EachServer, verify.ReasonRefused, closed},
		"the endpoints answer and the ClusterIP does not": {silent, []string{good, second}, verify.EachServer, verify.ReasonTimeout, ":53 sent no answer in time (1 of 3 DNS servers failed)"},
		"there are no endpoints":                          {good, nil, verify.EachServer, verify.ReasonNoService, "no ready endpoint"},
		"any asks the Pod's resolver alone":               {good, []string{silent, failing, closed}, verify.AnyServer, "", ""},
		"nothing listens at the Pod's resolver":           {closed, nil, verify.AnyServer, verify.ReasonRefused, ""},
		"no setting asks the Pod's resolver alone":        {good, []string{silent, failing, closed}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := ask(t, podWithDNS(test.resolver), test.reason, verify.Check{DNS: &verify.DNS{Names: names, Servers: test.servers}},
				verify.Task{DNS: verify.Target{Endpoints: test.endpoints}})
			assert.Contains(t, result.Message, test.message)
		})
	}
}

func TestNoMoreThanSomeEndpointsAreAsked(t *testing.T) {
	var endpoints []string
	for i := range 40 {
		endpoints = append(endpoints, fmt.Sprintf("192.0.2.%d:53", i+1))
	}
	pod := check.Pod{Dial: func(_ context.Context, _, address string) (net.Conn, error) { return nil, refused(address) }}
	result := ask(t, pod, verify.ReasonRefused, verify.Check{DNS: &verify.DNS{Names: []string{"example.com."}, Servers: verify.EachServer}},
		verify.Task{DNS: verify.Target{Endpoints: endpoints}})
	assert.Contains(t, result.Message, "(33 of 33 DNS servers failed)", "32 of them, and the Pod's own")
}

func TestADNSServerThatStartsToAnswerIsAskedAgain(t *testing.T) {
	var questions atomic.Int32
	answers := withAddresses(map[string][]string{"example.com.": {"192.0.2.1"}})
	server := dnsServer(t, func(question *dns.Msg, overTCP bool) *dns.Msg {
		if questions.Add(1) <= 4 { // both types, twice
			return withCode(dns.RcodeServerFailure)(question, overTCP)
		}
		return answers(question, overTCP)
	})
	result := ask(t, podWithDNS(server), "", verify.Check{DNS: &verify.DNS{Names: []string{"example.com."}}}, verify.Task{})
	assert.Equal(t, verify.Passed, result.Outcome, result.Message)
	assert.Greater(t, result.Tries, 1)
	assert.Empty(t, result.Message)
}

func TestHostileDNSServersOverTCPAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		serve  func(net.Conn)
		reason verify.Reason
	}{
		"one that sends a byte now and then": {forever("\xff", 100*time.Millisecond), verify.ReasonTimeout},
		"one that sends zeros without end":   {forever(string(make([]byte, 4096)), 0), verify.ReasonBadAnswer},
		"one that closes the connection":     {func(connection net.Conn) { _ = connection.Close() }, verify.ReasonReset},
		"one that closes within its answer": {func(connection net.Conn) {
			_, _ = connection.Read(make([]byte, 512))
			_, _ = connection.Write([]byte("\xff\xff\x00"))
			_ = connection.Close()
		}, verify.ReasonReset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream, datagrams := tcpServer(t, test.serve), dnsServer(t, cutOverUDP(mute))
			pod := podWithDNS(datagrams)
			dial := pod.Dial
			pod.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if network == "tcp" {
					return new(net.Dialer).DialContext(ctx, network, stream)
				}
				return dial(ctx, network, address)
			}
			ask(t, pod, test.reason, verify.Check{DNS: &verify.DNS{Names: []string{"example.com."}}}, verify.Task{})
		})
	}
}

func TestAFloodOfPacketsEnds(t *testing.T) {
	flood, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer flood.Close()
	go func() {
		question := make([]byte, 512)
		for {
			_, client, err := flood.ReadFrom(question)
			if err != nil {
				return
			}
			go func() {
				for range 5000 {
					if _, err := flood.WriteTo(make([]byte, 1232), client); err != nil {
						return
					}
				}
			}()
		}
	}()
	result := answer(t, podWithDNS(flood.LocalAddr().String()), verify.ReasonTooLarge, verify.Check{DNS: &verify.DNS{Names: []string{"example.com."}}}, verify.Task{})
	assert.Contains(t, []verify.Reason{verify.ReasonTooLarge, verify.ReasonBadAnswer}, result.Reason, result.Message)
}

// servfailThenNoSuchName answers every second question for a type with NXDOMAIN. The resolver asks again after SERVFAIL, as it does with the next
// search domain, and returns its last answer.
func servfailThenNoSuchName() func(*dns.Msg, bool) *dns.Msg {
	var questions [65536]atomic.Int32
	return func(question *dns.Msg, overTCP bool) *dns.Msg {
		if questions[question.Question[0].Qtype].Add(1)%2 == 1 {
			return withCode(dns.RcodeServerFailure)(question, overTCP)
		}
		return withCode(dns.RcodeNameError)(question, overTCP)
	}
}

func otherIdentifier(question *dns.Msg, _ bool) *dns.Msg {
	reply := new(dns.Msg).SetRcode(question, dns.RcodeNameError)
	reply.Id++
	return reply
}

func echo(question *dns.Msg, _ bool) *dns.Msg { return question }

func aliasOfItself(question *dns.Msg, _ bool) *dns.Msg {
	reply := new(dns.Msg).SetReply(question)
	reply.RecursionAvailable = true
	name := question.Question[0].Name
	reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: name})
	return reply
}

func manyAddresses(count int) func(*dns.Msg, bool) *dns.Msg {
	return func(question *dns.Msg, _ bool) *dns.Msg {
		reply := new(dns.Msg).SetReply(question)
		reply.RecursionAvailable, reply.Compress = true, true
		for i := range count {
			if question.Question[0].Qtype == dns.TypeA {
				reply.Answer = append(reply.Answer, &dns.A{Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(10, 0, byte(i>>8), byte(i))})
			}
		}
		return reply
	}
}

// cutOverUDP sends clients to TCP.
func cutOverUDP(answer func(*dns.Msg, bool) *dns.Msg) func(*dns.Msg, bool) *dns.Msg {
	return func(question *dns.Msg, overTCP bool) *dns.Msg {
		if overTCP {
			return answer(question, true)
		}
		reply := new(dns.Msg).SetReply(question)
		reply.Truncated = true
		return reply
	}
}
