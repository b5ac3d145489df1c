package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
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
	stop     context.CancelFunc
	done     chan struct{}

	mu     sync.Mutex
	relays map[frontend]*relay
	failed map[frontend]error
	follow func([]*corev1.Service) // is called with all Services after each change
}

// frontend is where clients reach a port of a Service.
type frontend struct {
	network string // tcp or udp
	address string // IP:PORT
}

func frontendOf(service *corev1.Service, port corev1.ServicePort) frontend {
	return frontend{strings.ToLower(string(port.Protocol)), net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))}
}

// startServices publishes the endpoint of Service kubernetes and serves Services until close. The context bounds the start.
func startServices(ctx context.Context, client kubernetes.Interface, apiServer string) (*services, error) {
	target, err := url.Parse(apiServer)
	if err != nil {
		return nil, fmt.Errorf("serve services: %w", err)
	}
	if err := publishAPIServer(ctx, client); err != nil {
		return nil, fmt.Errorf("serve services: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &services{
		services: factory.Core().V1().Services().Lister(), slices: factory.Discovery().V1().EndpointSlices().Lister(),
		changed: make(chan struct{}, 1), done: make(chan struct{}), relays: map[frontend]*relay{}, failed: map[frontend]error{},
	}
	// The API server listens on loopback, which is no address for an endpoint.
	atEndpoint := frontend{"tcp", net.JoinHostPort(apiEndpoint, strconv.Itoa(apiPort))}
	toAPIServer, err := newRelay(atEndpoint, []string{target.Host})
	if err != nil {
		return nil, fmt.Errorf("serve services: %w", err)
	}
	notify := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.again() }, UpdateFunc: func(any, any) { s.again() }, DeleteFunc: func(any) { s.again() },
	}
	_, serviceErr := factory.Core().V1().Services().Informer().AddEventHandler(notify)
	_, sliceErr := factory.Discovery().V1().EndpointSlices().Informer().AddEventHandler(notify)
	if err := errors.Join(serviceErr, sliceErr); err != nil {
		return nil, errors.Join(fmt.Errorf("serve services: %w", err), toAPIServer.close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	factory.Start(running.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.reconcile(); err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("serve services: %w", err), toAPIServer.close())
	}
	go func() {
		defer close(s.done)
		s.run(running)
		factory.Shutdown()
		_ = toAPIServer.close()
	}()
	return s, nil
}

// publishAPIServer makes the endpoint of Service kubernetes, which this API server does not do for an address on loopback.
func publishAPIServer(ctx context.Context, client kubernetes.Interface) error {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{apiEndpoint}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](apiPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	_, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish endpoint of API server: %w", err)
	}
	return nil
}

// again asks for a reconciliation.
func (s *services) again() {
	select {
	case s.changed <- struct{}{}:
	default: // asked for already
	}
}

func (s *services) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			_ = s.reconcile() // close returns the errors that remain
		}
	}
}

// following calls a function with all Services, at once and after each change.
func (s *services) following(follow func([]*corev1.Service)) {
	s.mu.Lock()
	s.follow = follow
	s.mu.Unlock()
	s.again()
}

// reconcile makes the relays those of the Services that have ready endpoints.
func (s *services) reconcile() error {
	all, err := s.services.List(labels.Everything())
	if err != nil {
		return err
	}
	want := map[frontend][]string{}
	for _, service := range all {
		if err := s.add(want, service); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = map[frontend]error{}
	for at, r := range s.relays {
		if len(want[at]) == 0 {
			s.failed[at] = r.close()
			delete(s.relays, at)
		}
	}
	for at, endpoints := range want {
		if r := s.relays[at]; r != nil {
			r.endpoints.Store(&endpoints)
			continue
		}
		r, err := newRelay(at, endpoints)
		if err != nil {
			s.failed[at] = err
			continue
		}
		s.relays[at] = r
	}
	if s.follow != nil {
		s.follow(all)
	}
	return s.errors()
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
		at := frontendOf(service, port)
		for _, slice := range list {
			want[at] = append(want[at], readyEndpoints(slice, port.Name)...)
		}
		slices.Sort(want[at])
		if len(want[at]) == 0 || port.Protocol == corev1.ProtocolSCTP {
			delete(want, at)
		}
	}
	return nil
}

// readyEndpoints are the addresses at which a port of a Service is served.
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

// errors are those of the frontends that are not served as they should be.
func (s *services) errors() error {
	return errors.Join(slices.Collect(maps.Values(s.failed))...)
}

// close serves nothing any more. The error names the frontends that could not be served in the end.
func (s *services) close() error {
	s.stop()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.errors()
	for _, r := range s.relays {
		err = errors.Join(err, r.close())
	}
	return err
}

// serves reports whether a server answers there.
func (s *services) serves(at frontend) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relays[at] != nil
}
