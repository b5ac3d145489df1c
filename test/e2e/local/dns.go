package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// What the kubelets tell their pods.
const (
	clusterDNS    = "10.96.0.10"
	clusterDomain = "cluster.local"
)

// DNSFault is what is wrong with a DNS server.
type DNSFault string

// The faults. A server that is stopped refuses: its process ended.
const (
	NoDNSFault DNSFault = ""
	MuteDNS    DNSFault = "mute"
	FailingDNS DNSFault = "SERVFAIL"
)

// DNS are the replicas behind Service kube-system/kube-dns.
type DNS struct {
	cluster *Cluster
	folder  string

	mu     sync.Mutex
	names  map[string][]string
	faults []DNSFault // by replica
}

// StartDNS starts replicas of a DNS server that knows the Services of the cluster. It adds Service kube-system/kube-dns in front of them, and waits
// until it answers. Names in further, with a dot at the end, have these addresses, in addition to the names of Services.
func (c *Cluster) StartDNS(ctx context.Context, replicas int, further map[string][]string) (*DNS, error) {
	built, err := isolated()
	if err != nil {
		return nil, err
	}
	d := &DNS{cluster: c, folder: filepath.Join(c.Control.Dir(), "dns"), faults: make([]DNSFault, replicas)}
	if err := os.MkdirAll(d.folder, 0o700); err != nil {
		return nil, fmt.Errorf("start DNS: %w", err)
	}
	failed := make(chan error, 1)
	c.services.following(func(all []*corev1.Service) {
		if err := d.learn(all, further); err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	})
	if err := d.Break(0, NoDNSFault); err != nil { // writes all zones
		return nil, fmt.Errorf("start DNS: %w", err)
	}
	for replica := range replicas {
		args := []string{"dns", "--listen=" + net.JoinHostPort(dnsAddress(replica), "53"), "--zone=" + d.zone(replica)}
		if _, err := c.Control.Go(fmt.Sprintf("dns-%d", replica), filepath.Join(built, machineFile), args); err != nil {
			return nil, fmt.Errorf("start DNS: %w", err)
		}
	}
	if err := c.publishDNS(ctx, replicas); err != nil {
		return nil, fmt.Errorf("start DNS: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-failed:
			return false, err
		default:
		}
		name := "kubernetes.default.svc." + clusterDomain + "."
		for _, server := range append([]string{clusterDNS}, d.Servers()...) {
			resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(server, "53"))
			}}
			if _, err := resolver.LookupHost(ctx, name); err != nil {
				return false, nil //nolint:nilerr // not yet
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("start DNS: wait for its answers: %w", err)
	}
	return d, nil
}

// dnsAddress is that of a replica.
func dnsAddress(replica int) string { return fmt.Sprintf("10.245.0.%d", 10+replica) }

// Servers are the addresses of the replicas.
func (d *DNS) Servers() (list []string) {
	for replica := range d.faults {
		list = append(list, dnsAddress(replica))
	}
	return list
}

func (d *DNS) zone(replica int) string {
	return filepath.Join(d.folder, fmt.Sprintf("zone-%d.json", replica))
}

// Break makes a replica faulty, or well again, from the next question on.
func (d *DNS) Break(replica int, fault DNSFault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[replica] = fault
	return d.write()
}

// learn takes over the names of the Services.
func (d *DNS) learn(all []*corev1.Service, further map[string][]string) error {
	names := map[string][]string{}
	for name, addresses := range further {
		names[name] = addresses
	}
	for _, service := range all {
		if ip := service.Spec.ClusterIP; net.ParseIP(ip) != nil {
			names[service.Name+"."+service.Namespace+".svc."+clusterDomain+"."] = []string{ip}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = names
	return d.write()
}

// write writes the zone of each replica, each at once: the replicas read them at any time.
func (d *DNS) write() error {
	for replica, fault := range d.faults {
		content, err := json.Marshal(map[string]any{"names": d.names, "fault": fault})
		if err != nil {
			return fmt.Errorf("encode zone: %w", err)
		}
		if err := replaceFile(d.zone(replica), content); err != nil {
			return fmt.Errorf("write zone: %w", err)
		}
	}
	return nil
}

// replaceFile writes a file that others read meanwhile: they see all of the old content, or all of the new.
func replaceFile(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// publishDNS makes Service kube-dns. Its endpoints are processes outside the cluster, and so nobody but us can publish them.
func (c *Cluster) publishDNS(ctx context.Context, replicas int) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec: corev1.ServiceSpec{ClusterIP: clusterDNS, Ports: []corev1.ServicePort{
			{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)},
			{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(53)},
		}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kube-dns", Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("dns"), Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolUDP)},
			{Name: ptr.To("dns-tcp"), Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolTCP)},
		},
	}
	for replica := range replicas {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{dnsAddress(replica)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	if _, err := c.Admin.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, service, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish Service kube-dns: %w", err)
	}
	if _, err := c.Admin.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish endpoints of Service kube-dns: %w", err)
	}
	return nil
}
