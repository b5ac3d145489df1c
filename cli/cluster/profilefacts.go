package cluster

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/verify"
)

// factsReader reads what profiles name.
type factsReader struct {
	*Cluster
	facts  impact.ProfileFacts
	failed []FailedCall
}

// FailedCall is a call that failed, and the right that it needs.
type FailedCall struct {
	Right doctor.Right
	Err   error
}

// GetProfileFacts reads what profiles name. What could not be read is not known, and failed has why. The flags of the verifier's Deployment name the
// DNS Service.
func (c *Cluster) GetProfileFacts(ctx context.Context, profiles verify.Profiles, verifier doctor.Reading[*appsv1.Deployment]) (facts impact.ProfileFacts, failed []FailedCall) {
	r := &factsReader{Cluster: c, facts: impact.ProfileFacts{Services: map[string]*impact.ServiceFacts{}, DaemonSets: map[string]*appsv1.DaemonSet{}}}
	r.readAll(ctx, profiles, verifier)
	return r.facts, r.failed
}

func (r *factsReader) addFailed(right doctor.Right, err error) {
	r.failed = append(r.failed, FailedCall{right, err})
}

func (r *factsReader) readAll(ctx context.Context, profiles verify.Profiles, verifier doctor.Reading[*appsv1.Deployment]) {
	r.facts.ChecksNamespace = doctor.ChecksNamespaceOf(verifier)
	if verifier.Found || verifier.Absent {
		r.facts.DNS = doctor.DNSServiceOf(verifier)
	}
	for _, profile := range profiles.All() {
		for _, name := range profile.Services(r.facts.DNS) {
			if _, known := r.facts.Services[name]; !known && name != "" {
				r.readService(ctx, name)
			}
		}
		for _, name := range profile.Wait.DaemonSets {
			_, all := verify.DaemonSetsOf(name) // all: a DaemonSet without a Pod on the Node is not waited for
			if _, known := r.facts.DaemonSets[name]; !known && !all {
				r.readDaemonSet(ctx, name)
			}
		}
	}
	if dns, known := r.facts.Services[r.facts.DNS]; known && (dns == nil || ptr.Deref(dns.Ready, 1) == 0) {
		r.readOtherDNS(ctx)
	}
}

func (r *factsReader) readService(ctx context.Context, full string) {
	namespace, name, _ := strings.Cut(full, "/")
	service, err := r.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.facts.Services[full] = nil
		return
	}
	if err != nil {
		r.addFailed(doctor.Right{Verb: "get", Resource: "services", Namespace: namespace}, err)
		return
	}
	found := &impact.ServiceFacts{Service: service}
	r.facts.Services[full] = found
	options := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name}
	slices, err := r.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, options)
	if err != nil {
		r.addFailed(doctor.Right{Verb: "list", Group: discoveryv1.GroupName, Resource: "endpointslices", Namespace: namespace}, err)
		return
	}
	found.Ready = ptr.To(0)
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				*found.Ready++
			}
		}
	}
}

func (r *factsReader) readDaemonSet(ctx context.Context, full string) {
	namespace, name, _ := strings.Cut(full, "/")
	daemonSet, err := r.Client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.facts.DaemonSets[full] = nil
	case err != nil:
		r.addFailed(doctor.Right{Verb: "get", Group: appsv1.GroupName, Resource: "daemonsets", Namespace: namespace}, err)
	default:
		r.facts.DaemonSets[full] = daemonSet
	}
}

// readOtherDNS finds DNS Services under names of other platforms. One that cannot be read is not suggested.
func (r *factsReader) readOtherDNS(ctx context.Context) {
	for _, full := range impact.PlatformDNS(r.facts.DNS) {
		namespace, name, _ := strings.Cut(full, "/")
		if _, err := r.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			r.facts.OtherDNS = append(r.facts.OtherDNS, full)
		}
	}
}
