package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/verify"
)

// Bounds of what is looked up about a Service.
const (
	lookupLasts  = 2 * time.Second // worker Pods that start within it share one lookup
	maxEndpoints = 20              // that a worker receives
	maxAsked     = 40              // Pods behind endpoints that are read, in random order; the endpoints of others are left out
)

// fromCache has the API server answer from its watch cache, at no cost to etcd.
const fromCache = "0"

// lookups are what is read live: Services, their endpoints, and Pods of DaemonSets.
type lookups struct {
	client kubernetes.Interface
	now    func() time.Time

	mu       sync.Mutex
	services map[string]*lookup // by NAMESPACE/NAME

	daemons daemonLookups
}

// lookup is what was found some moments ago.
type lookup struct {
	mu   sync.Mutex // held while it is looked up, so that a burst looks up once
	time time.Time
	found
}

// found is a Service and its endpoints.
type found struct {
	service   *corev1.Service // nil: there is none
	endpoints []endpoint      // that are ready
	waiting   []endpoint      // that are not; looked at only if none is ready
}

type endpoint struct {
	address, node string
	ports         map[string]int          // by name
	pod           *corev1.ObjectReference // nil: no Pod is behind it
}

// service looks a Service up. One that does not exist has no addresses, which is no error.
func (l *lookups) service(ctx context.Context, name string) (found, error) {
	l.mu.Lock()
	entry, ok := l.services[name]
	if !ok {
		entry = &lookup{}
		l.services[name] = entry
	}
	l.mu.Unlock()
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if l.now().Sub(entry.time) < lookupLasts {
		return entry.found, nil
	}
	namespace, service, _ := strings.Cut(name, "/")
	object, missing := l.client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{ResourceVersion: fromCache})
	if missing != nil && !apierrors.IsNotFound(missing) {
		return found{}, fmt.Errorf("look up Service %s: %w", name, missing)
	}
	options := metav1.ListOptions{ResourceVersion: fromCache}
	options.LabelSelector = discoveryv1.LabelServiceName + "=" + service
	list, err := l.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, options)
	if err != nil {
		return found{}, fmt.Errorf("look up endpoints of Service %s: %w", name, err)
	}
	counted, err := l.counted(ctx, endpointsOf(list.Items, true))
	var waiting []endpoint
	if err == nil && len(counted) == 0 {
		waiting, err = l.counted(ctx, endpointsOf(list.Items, false))
	}
	if err != nil {
		return found{}, fmt.Errorf("look up Pods of Service %s: %w", name, err)
	}
	entry.time, entry.found = l.now(), found{service: object, endpoints: counted, waiting: waiting}
	if apierrors.IsNotFound(missing) {
		entry.service = nil
	}
	return entry.found, nil
}

// counted leaves out endpoints of Pods that no controller owns. A kubelet can create a mirror Pod with the labels of any Service, and choose its
// address. So its endpoint could fail the checks of all other Nodes.
func (l *lookups) counted(ctx context.Context, ready []endpoint) (counted []endpoint, err error) {
	asked := 0
	for _, i := range rand.Perm(len(ready)) {
		ref := ready[i].pod
		if ref == nil { // only who may write EndpointSlices adds it
			counted = append(counted, ready[i])
			continue
		}
		if asked++; asked > maxAsked {
			continue
		}
		pod, err := l.client.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{ResourceVersion: fromCache})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil && pod.UID == ref.UID && isOwned(pod) {
			counted = append(counted, ready[i])
		}
	}
	return counted, nil
}

// isOwned reports whether a controller made the Pod. A mirror Pod belongs to its Node.
func isOwned(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && owner != nil && owner.Kind != "Node"
}

// endpointsOf returns the endpoints that are ready, or those that are not yet.
func endpointsOf(list []discoveryv1.EndpointSlice, ready bool) (all []endpoint) {
	for _, slice := range list {
		ports := map[string]int{}
		for _, port := range slice.Ports {
			ports[ptr.Deref(port.Name, "")] = int(ptr.Deref(port.Port, 0))
		}
		for _, candidate := range slice.Endpoints {
			ends := !ready && ptr.Deref(candidate.Conditions.Terminating, false)
			if ptr.Deref(candidate.Conditions.Ready, true) == ready && !ends && len(candidate.Addresses) > 0 {
				e := endpoint{address: candidate.Addresses[0], node: ptr.Deref(candidate.NodeName, ""), ports: ports}
				if candidate.TargetRef != nil && candidate.TargetRef.Kind == "Pod" {
					e.pod = candidate.TargetRef
				}
				all = append(all, e)
			}
		}
	}
	return all
}

// portName returns the name of a port of the Service.
func (f found) portName(port int) (name string, ok bool) {
	for _, candidate := range f.service.Spec.Ports {
		if int(candidate.Port) == port {
			return candidate.Name, true
		}
	}
	return "", false
}

// target returns where a Service is: its addresses, and ready endpoints behind one of its ports, in random order. Endpoints on the Node except are left
// out.
func (f found) target(port int, excluded string) (target verify.Target) {
	if f.service == nil {
		return target
	}
	for _, ip := range f.service.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone {
			target.ClusterIPs = append(target.ClusterIPs, ip)
		}
	}
	name, ok := f.portName(port)
	if !ok {
		return target
	}
	for _, i := range rand.Perm(len(f.endpoints)) {
		endpoint := f.endpoints[i]
		number := endpoint.ports[name]
		if number == 0 || endpoint.node == excluded && excluded != "" || len(target.Endpoints) == maxEndpoints {
			continue
		}
		target.Endpoints = append(target.Endpoints, net.JoinHostPort(endpoint.address, strconv.Itoa(number)))
	}
	return target
}

// task returns what the worker of an attempt is to do.
func (l *lookups) task(ctx context.Context, place string, action verify.Action, dns string) (verify.Task, error) {
	task := verify.Task{Timeout: action.Profile.Profile.Timeout, Services: map[string]verify.Target{}}
	asksDNS := false
	for _, check := range action.Profile.Checks {
		if slices.Contains(action.Skip, check.Name) || check.Kubelet != nil {
			continue
		}
		task.Checks = append(task.Checks, check)
		needs := check.Needs()
		asksDNS = asksDNS || len(needs.Resolves) > 0
		if needs.Service == nil {
			continue
		}
		service, err := l.service(ctx, needs.Service.Name)
		if err != nil {
			return verify.Task{}, err
		}
		task.Services[needs.Service.Target()] = service.target(needs.Service.Port, place)
	}
	for _, name := range action.Profile.Services(dns) {
		service, err := l.service(ctx, name)
		if err != nil {
			return verify.Task{}, err
		}
		if name == dns && asksDNS {
			task.DNS = service.target(dnsPort, "")
		}
		task.Services[name] = service.target(0, place)
	}
	return task, nil
}

const dnsPort = 53

// backings returns what is behind the Services that a profile depends on.
func (l *lookups) backings(ctx context.Context, profile verify.CompiledProfile, dns string, nodes cache.SharedIndexInformer) (map[string]verify.Backing, error) {
	backings := map[string]verify.Backing{}
	for _, name := range profile.Services(dns) {
		service, err := l.service(ctx, name)
		if err != nil {
			return nil, err
		}
		placed := slices.ContainsFunc(service.waiting, func(e endpoint) bool {
			object, exists, err := nodes.GetStore().GetByKey(e.node)
			target, isNode := object.(*node)
			return err == nil && exists && isNode && target.ready
		})
		backings[name] = verify.Backing{Ready: len(service.endpoints), Placed: placed}
	}
	return backings, nil
}
