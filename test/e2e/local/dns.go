package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the kubelets tell their pods.
const (
	clusterDNS    = "10.96.0.10"
	clusterDomain = "cluster.local"
)

// dnsRange has the addresses of the DNS servers.
const dnsRange = "10.245.0.16/28"

// dnsFault is what is wrong with a DNS server.
type dnsFault string

// The faults. A server that is stopped refuses: its process ended.
const (
	noDNSFault dnsFault = ""
	muteDNS    dnsFault = "mute"
	failingDNS dnsFault = "SERVFAIL"
)

// dns are the replicas behind Service kube-system/kube-dns.
type dns struct {
	folder string

	mu     sync.Mutex
	names  map[string][]string
	faults []dnsFault // by replica
}

// startDNS starts two replicas of a DNS server that knows the Services of the cluster. It adds Service kube-system/kube-dns in front of them, and
// waits until it answers.
func (c *cluster) startDNS(t *testing.T) *dns {
	t.Helper()
	const replicas = 2
	d := &dns{folder: filepath.Join(c.Cluster.Dir(), "dns"), faults: make([]dnsFault, replicas)}
	require.NoError(t, os.MkdirAll(d.folder, 0o700))
	require.NoError(t, d.write())
	c.services.onChange(func(all []*corev1.Service) { d.learn(t, all) })
	for replica, address := range d.servers() {
		c.runs(t, fmt.Sprintf("dns-%d", replica), "dns", "--listen="+net.JoinHostPort(address, "53"), "--zone="+d.zone(replica))
	}
	ports := []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}}
	c.addService(t, metav1.NamespaceSystem, "kube-dns", corev1.ServiceSpec{ClusterIP: clusterDNS, Ports: ports})
	c.publish(t, metav1.NamespaceSystem, "kube-dns", ports, d.servers()...)
	require.Eventually(t, func() bool {
		for _, server := range append([]string{clusterDNS}, d.servers()...) {
			resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(server, "53"))
			}}
			if _, err := resolver.LookupHost(t.Context(), "kubernetes.default.svc."+clusterDomain+"."); err != nil {
				return false
			}
		}
		return true
	}, startTimeout, 20*time.Millisecond, "the DNS servers must answer")
	return d
}

// servers returns the addresses of the replicas.
func (d *dns) servers() (list []string) {
	for replica := range d.faults {
		list = append(list, fmt.Sprintf("10.245.0.%d", 16+replica))
	}
	return list
}

func (d *dns) zone(replica int) string {
	return filepath.Join(d.folder, fmt.Sprintf("zone-%d.json", replica))
}

// breaks makes replicas faulty, or well again, from the next question on. Replicas that are not named are well.
func (d *dns) breaks(t *testing.T, faults ...dnsFault) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.faults)
	copy(d.faults, faults)
	require.NoError(t, d.write())
}

// learn takes over the names of the Services.
func (d *dns) learn(t *testing.T, all []*corev1.Service) {
	names := map[string][]string{}
	for _, service := range all {
		if ip := service.Spec.ClusterIP; net.ParseIP(ip) != nil {
			names[service.Name+"."+service.Namespace+".svc."+clusterDomain+"."] = []string{ip}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = names
	assert.NoError(t, d.write()) // this is not the goroutine of the test
}

// write writes the zone of each replica, each at once: the replicas read them at any time.
func (d *dns) write() error {
	for replica, fault := range d.faults {
		content, err := json.Marshal(map[string]any{"names": d.names, "fault": fault})
		if err != nil {
			return err
		}
		if err := replaceFile(d.zone(replica), content); err != nil {
			return err
		}
	}
	return nil
}
