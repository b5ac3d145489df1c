package local

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// Addresses of the machine. Each of a range is one, because the ranges are on its loopback device.
const (
	serviceRange = "10.96.0.0/16"
	controlRange = "10.245.0.0/24" // programs next to the control plane
	apiEndpoint  = "10.245.0.1"    // the endpoint of Service kubernetes
	apiPort      = 6443
)

// services does what kube-proxy does: it answers at the addresses of Services, and passes the bytes to a ready endpoint. Without a ready endpoint,
// the Service's port does not answer.
type services struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	changed  chan struct{}

	mu     sync.Mutex
	relays map[frontend]*relay
	notify func([]*corev1.Service) // is called with all Services after each change
}

// frontend is where clients reach a port of a Service.
type frontend struct {
	network string // tcp or udp
	address string // IP:PORT
}

func frontendOf(service *corev1.Service, port corev1.ServicePort) frontend {
	return frontend{strings.ToLower(string(port.Protocol)), net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))}
}

// startServices publishes the endpoint of Service kubernetes and serves Services until the test ends.
func (c *cluster) startServices(t *testing.T) {
	t.Helper()
	target, err := url.Parse(c.Cluster.URL())
	require.NoError(t, err)
	// This API server listens on loopback, which is no address for an endpoint. So it publishes none.
	c.publish(t, metav1.NamespaceDefault, "kubernetes", httpsOfAPIServer, apiEndpoint)
	toAPIServer, err := newRelay(frontend{"tcp", net.JoinHostPort(apiEndpoint, strconv.Itoa(apiPort))}, []string{target.Host})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, toAPIServer.close()) })

	factory := informers.NewSharedInformerFactory(c.Admin, 0)
	s := &services{
		services: factory.Core().V1().Services().Lister(), slices: factory.Discovery().V1().EndpointSlices().Lister(),
		changed: make(chan struct{}, 1), relays: map[frontend]*relay{},
	}
	c.services = s
	notify := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.restart() }, UpdateFunc: func(any, any) { s.restart() }, DeleteFunc: func(any) { s.restart() },
	}
	_, err = factory.Core().V1().Services().Informer().AddEventHandler(notify)
	require.NoError(t, err)
	_, err = factory.Discovery().V1().EndpointSlices().Informer().AddEventHandler(notify)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	require.NoError(t, s.reconcile())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.changed:
				if err := s.reconcile(); err != nil {
					t.Errorf("serve services: %v", err)
				}
			}
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		factory.Shutdown()
		for front, r := range s.relays {
			assert.NoError(t, r.close(), "%v", front)
		}
	})
}

// httpsOfAPIServer is the port of an endpoint that is the API server.
var httpsOfAPIServer = []corev1.ServicePort{{Name: "https", Port: apiPort, Protocol: corev1.ProtocolTCP}}

func (c *cluster) addService(t *testing.T, namespace, name string, spec corev1.ServiceSpec) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	_, err := c.Admin.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)
}

// publish makes the endpoints of a Service that no controller publishes: their processes run outside the cluster.
func (c *cluster) publish(t *testing.T, namespace, service string, ports []corev1.ServicePort, addresses ...string) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, port := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol})
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	_, err := c.Admin.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), slice, metav1.CreateOptions{})
	require.NoError(t, err)
}

// restart asks for a reconciliation.
func (s *services) restart() {
	select {
	case s.changed <- struct{}{}:
	default: // asked for already
	}
}

// onChange calls a function with all Services, at once and after each change.
func (s *services) onChange(follow func([]*corev1.Service)) {
	s.mu.Lock()
	s.notify = follow
	s.mu.Unlock()
	s.restart()
}

// reconcile makes the relays those of the Services that have ready endpoints.
func (s *services) reconcile() (err error) {
	all, err := s.services.List(labels.Everything())
	want := map[frontend][]string{}
	for _, service := range all {
		err = errors.Join(err, s.add(want, service))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for front, r := range s.relays {
		if len(want[front]) == 0 {
			err = errors.Join(err, r.close())
			delete(s.relays, front)
		}
	}
	for front, endpoints := range want {
		if r := s.relays[front]; r != nil {
			r.endpoints.Store(&endpoints)
			continue
		}
		made, failed := newRelay(front, endpoints)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		s.relays[front] = made
	}
	if s.notify != nil {
		s.notify(all)
	}
	return err
}

// add adds the frontends of a Service that have ready endpoints.
func (s *services) add(want map[frontend][]string, service *corev1.Service) error {
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	list, err := s.slices.EndpointSlices(service.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name}))
	if err != nil {
		return err
	}
	for _, port := range service.Spec.Ports {
		var endpoints []string
		for _, slice := range list {
			endpoints = append(endpoints, readyEndpoints(slice, port.Name)...)
		}
		if len(endpoints) > 0 {
			want[frontendOf(service, port)] = endpoints
		}
	}
	return nil
}

// readyEndpoints returns the addresses at which a port of a Service is served.
func readyEndpoints(slice *discoveryv1.EndpointSlice, portName string) (list []string) {
	for _, port := range slice.Ports {
		if ptr.Deref(port.Name, "") != portName || port.Port == nil {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				list = append(list, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port))))
			}
		}
	}
	return list
}

// serves reports whether a server answers there.
func (s *services) serves(front frontend) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relays[front] != nil
}
