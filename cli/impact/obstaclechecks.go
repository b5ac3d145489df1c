package impact

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

const dnsPort = 53

// judgeCheck finds what keeps one check from passing. A check that asks an address needs no Service.
func (p *judgedProfile) judgeCheck(check verify.Check) {
	needs := check.Needs()
	if len(needs.Names()) > 0 {
		p.judgeDNS(check.Name, needs.EachServer)
	}
	for _, name := range needs.Names() {
		p.judgeName(check.Name, name)
	}
	if needs.Service != nil {
		p.judgeService(check.Name, *needs.Service)
	}
}

// judgeDNS judges the DNS Service. A check of each server asks its endpoints. Other checks need it only for a cold start:
// without it, they are skipped while no Node takes workloads.
func (p *judgedProfile) judgeDNS(check string, perNode bool) {
	name := p.facts.DNS
	service, known := p.facts.Services[name]
	if !known {
		return
	}
	next, commands := p.renameDNS()
	switch {
	case service == nil && perNode:
		p.addFound(check, HindersAll, next, commands, "it asks each server of the DNS Service %s, which does not exist: no Node passes", name)
	case service == nil:
		p.addFound(check, HindersSome, next, commands,
			"the DNS Service %s does not exist: while no Node takes workloads, the check is skipped, and Nodes open without it", name)
	case perNode && !hasPort(service.Service, dnsPort, ""):
		p.addFound(check, HindersAll, next, commands, "it asks each server of the DNS Service %s, which has no port %d: no Node passes", name, dnsPort)
	case perNode && p.unserved(service):
		if len(p.facts.OtherDNS) == 0 {
			next, commands = showEndpoints(name)
		}
		p.addFound(check, HindersSome, next, commands, "it asks each server of the DNS Service %s, which has no ready endpoint: no Node passes before it has one", name)
	}
}

// renameDNS returns how the controller is given the DNS Service that the cluster has.
func (p *judgedProfile) renameDNS() (next string, commands []string) {
	if len(p.facts.OtherDNS) > 0 {
		return fmt.Sprintf("Set the value verify.dnsService=%s of the chart: this Service exists", strings.Join(p.facts.OtherDNS, " or ")), nil
	}
	return "Set the value verify.dnsService of the chart to the DNS Service of the cluster. On most platforms, this finds it:",
		[]string{"kubectl get services --all-namespaces -l k8s-app=kube-dns"}
}

// unserved reports that no endpoint of a Service is ready although Nodes take workloads. At a cold start, that is no fault.
func (p *judgedProfile) unserved(service *ServiceFacts) bool {
	return !p.coldStart && service.Ready != nil && *service.Ready == 0
}

func showEndpoints(name string) (next string, commands []string) {
	namespace, service, _ := strings.Cut(name, "/")
	return "See why its Pods are not Ready:", []string{
		fmt.Sprintf("kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s", namespace, service),
		fmt.Sprintf("kubectl -n %s get pods -o wide", namespace),
	}
}

// judgeName judges a name to resolve. A name with a domain that may be another cluster's is not judged.
func (p *judgedProfile) judgeName(check, name string) {
	svc, ok := verify.ServiceOfName(name)
	_, domain, _ := strings.Cut(strings.ToLower(strings.TrimSuffix(name, "."))+".", ".svc.")
	if !ok || domain != "" && domain != "cluster.local." {
		return
	}
	if service, known := p.facts.Services[svc]; known && service == nil {
		p.addFound(check, HindersAll, "Correct the name, or create the Service", nil, "the name %s is that of Service %s, which does not exist: no Node passes", name, svc)
	}
}

// judgeService judges a service check. The worker asks no more endpoints than there are on other Nodes, so too few are no obstacle.
func (p *judgedProfile) judgeService(check string, wanted verify.Service) {
	facts, known := p.facts.Services[wanted.Name]
	if !known {
		return
	}
	if facts == nil {
		p.addFound(check, HindersAll, "Correct the name in the check, or create the Service", nil, "Service %s does not exist: no Node passes", wanted.Name)
		return
	}
	service := facts.Service
	hasIP := slices.ContainsFunc(service.Spec.ClusterIPs, func(ip string) bool { return ip != corev1.ClusterIPNone })
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		p.addFound(check, HindersAll, "Use a check of kind tcp", nil, "Service %s is an ExternalName, which has neither a ClusterIP nor endpoints: no Node passes", wanted.Name)
	case !hasPort(service, wanted.Port, corev1.ProtocolTCP):
		p.addFound(check, HindersAll, "Name one of its TCP ports:", []string{kubectlGet("service", wanted.Name)},
			"Service %s has no TCP port %d: no Node passes", wanted.Name, wanted.Port)
	case !hasIP && wanted.Endpoints == 0:
		p.addFound(check, HindersAll, "Set endpoints of the check to 1 or more", nil,
			"Service %s is headless, and the check asks no endpoints: no Node passes", wanted.Name)
	case p.unserved(facts):
		next, commands := showEndpoints(wanted.Name)
		p.addFound(check, HindersSome, next, commands, "Service %s has no ready endpoint: no Node passes before it has one", wanted.Name)
	}
}

// hasPort reports whether a Service has a port; without a protocol, of any.
func hasPort(service *corev1.Service, number int, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		return int(port.Port) == number && (protocol == "" || port.Protocol == protocol || port.Protocol == "" && protocol == corev1.ProtocolTCP)
	})
}

// kubectlGet shows an object, NAMESPACE/NAME.
func kubectlGet(kind, object string) string {
	namespace, name, _ := strings.Cut(object, "/")
	return fmt.Sprintf("kubectl -n %s get %s %s", namespace, kind, name)
}
