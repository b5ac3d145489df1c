package cli

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
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

// profileFacts reads what profiles name. What cannot be read is written to stderr, and is not known.
func (c *cluster) profileFacts(ctx context.Context, profiles verify.Profiles) impact.ProfileFacts {
	if profiles.Empty() {
		return impact.ProfileFacts{}
	}
	r := newFactsReader(c)
	to := access{verb: "get", group: appsv1.GroupName, resource: "deployments", namespace: c.namespace, name: doctor.VerifyDeployment}
	deployment, err := c.client.AppsV1().Deployments(c.namespace).Get(ctx, doctor.VerifyDeployment, metav1.GetOptions{})
	switch {
	case store.SaysGone(err):
		r.readAll(ctx, profiles, doctor.Absent[*appsv1.Deployment]())
	case err != nil:
		r.unread(to, err)
		r.readAll(ctx, profiles, doctor.Read[*appsv1.Deployment]{})
	default:
		r.readAll(ctx, profiles, doctor.Found(deployment))
	}
	said := map[string]bool{}
	for _, one := range r.failures {
		err := c.failed(one.to, one.err)
		if !said[one.to.denied()] {
			c.sayUnknown("Whether the profiles can pass in this cluster", err)
		}
		said[one.to.denied()] = true
	}
	return r.facts
}

// asked is [cluster.profileFacts] for doctor, which has read the Deployment.
func (e *examination) asked(ctx context.Context) (asked doctor.Asked, _ error) {
	profiles := e.seen.Profiles()
	if profiles.Empty() {
		return asked, nil
	}
	r := newFactsReader(e.cluster)
	r.readAll(ctx, profiles, e.seen.Verifier())
	asked.Facts = r.facts
	for _, one := range r.failures {
		asked.Unread = append(asked.Unread, e.unknown(one.to, one.err))
	}
	return asked, nil
}

// factsReader reads what profiles name.
type factsReader struct {
	*cluster
	facts    impact.ProfileFacts
	failures []factFailure
}

// factFailure is a call that failed.
type factFailure struct {
	to  access
	err error
}

func newFactsReader(c *cluster) *factsReader {
	facts := impact.ProfileFacts{Services: map[string]*impact.ServiceFacts{}, DaemonSets: map[string]*appsv1.DaemonSet{}}
	return &factsReader{cluster: c, facts: facts}
}

func (r *factsReader) unread(to access, err error) {
	r.failures = append(r.failures, factFailure{to, err})
}

// readAll reads what the profiles name. The flags of the Deployment name the DNS Service.
func (r *factsReader) readAll(ctx context.Context, profiles verify.Profiles, verifier doctor.Read[*appsv1.Deployment]) {
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
			_, every := verify.DaemonSetsOf(name) // then nothing waits for one that has no Pod on the Node
			if _, known := r.facts.DaemonSets[name]; !known && !every {
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
	service, err := r.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.facts.Services[full] = nil
		return
	}
	if err != nil {
		r.unread(access{verb: "get", resource: "services", namespace: namespace}, err)
		return
	}
	found := &impact.ServiceFacts{Service: service}
	r.facts.Services[full] = found
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name}
	slices, err := r.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, of)
	if err != nil {
		r.unread(access{verb: "list", group: discoveryv1.GroupName, resource: "endpointslices", namespace: namespace}, err)
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
	daemonSet, err := r.client.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.facts.DaemonSets[full] = nil
	case err != nil:
		r.unread(access{verb: "get", group: appsv1.GroupName, resource: "daemonsets", namespace: namespace}, err)
	default:
		r.facts.DaemonSets[full] = daemonSet
	}
}

// readOtherDNS finds DNS Services under names of other platforms. One that cannot be read is not suggested.
func (r *factsReader) readOtherDNS(ctx context.Context) {
	for _, full := range impact.PlatformDNS(r.facts.DNS) {
		namespace, name, _ := strings.Cut(full, "/")
		if _, err := r.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			r.facts.OtherDNS = append(r.facts.OtherDNS, full)
		}
	}
}
