package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/miekg/dns"
)

// What a zone may tell a DNS server to do in place of an answer.
const (
	muteFault    = "mute"     // it says nothing
	failureFault = "SERVFAIL" // it shows that it failed
)

// zone is what a DNS server knows. The test writes it, as a whole, while the server runs.
type zone struct {
	// Names are IPv4 addresses by name, with a dot at its end.
	Names map[string][]string `json:"names"`
	// Fault is empty where all is well.
	Fault string `json:"fault,omitempty"`
}

// serveDNS answers questions over UDP and TCP until it is stopped.
func serveDNS(args []string) error {
	flags := flag.NewFlagSet(dnsName, flag.ExitOnError)
	listen := flags.String("listen", "", "the address and port to listen on")
	file := flags.String("zone", "", "a JSON file with the zone, read at each question")
	if err := flags.Parse(args); err != nil {
		return err
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		var z zone
		if err := z.read(*file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			z.Fault = failureFault
		}
		if reply := z.answer(question); reply != nil {
			if err := w.WriteMsg(reply); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	})
	packets, err := net.ListenPacket("udp", *listen)
	if err != nil {
		return err
	}
	streams, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	servers := []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: streams, Handler: handler}}
	ended := make(chan error, len(servers))
	for _, server := range servers {
		go func() { ended <- server.ActivateAndServe() }()
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-stop.Done():
	}
	return errors.Join(packets.Close(), streams.Close())
}

func (z *zone) read(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, z)
}

// answer returns the reply to a question, or nil where there is none.
func (z zone) answer(question *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(question)
	reply.Authoritative = true
	switch {
	case z.Fault == muteFault:
		return nil
	case z.Fault == failureFault || len(question.Question) != 1:
		reply.Rcode = dns.RcodeServerFailure
		return reply
	}
	asked := question.Question[0]
	addresses, known := z.Names[strings.ToLower(asked.Name)]
	if !known {
		reply.Rcode = dns.RcodeNameError
		return reply
	}
	for _, address := range addresses {
		if asked.Qtype == dns.TypeA {
			reply.Answer = append(reply.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}, A: net.ParseIP(address),
			})
		}
	}
	return reply // without addresses of a type it has no answer, which is no failure
}
