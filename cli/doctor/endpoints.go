package doctor

import (
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/policy"
)

// calledByService reports whether the API server calls the webhook by its Service, as far as is known.
func (s Installation) calledByService() bool {
	hooks := s.hooks()
	return len(hooks) == 0 || slices.ContainsFunc(hooks, func(h hook) bool { return h.client.Service != nil })
}

// judgeEndpoints judges whether there is anybody behind the Service.
func judgeEndpoints(seen Installation) answer {
	if !seen.calledByService() {
		return answer{okText: "the API server calls a URL, no Service"}
	}
	var a answer
	seen.compare(&a, checkEndpoints)
	addUnknown(&a, serviceObject, seen.Endpoints)
	if !seen.Endpoints.Found || seen.object(serviceObject).Live.Absent {
		return a
	}
	ready, all := 0, 0
	for _, slice := range seen.Endpoints.Value {
		for _, endpoint := range slice.Endpoints {
			if all++; ptr.Deref(endpoint.Conditions.Ready, true) {
				ready++
			}
		}
	}
	a.okText = fmt.Sprintf("%d of %d endpoints of the webhook %s ready", ready, all, verb(ready))
	see := newRemedy("See what keeps them:", seen.kubectl("get endpointslices -l %s=%s", discoveryv1.LabelServiceName, WebhookServiceName), seen.podsCommand("webhook"))
	switch {
	case all == 0:
		a.add(Error, serviceObject, see, "no Pod is behind it: %s", serviceDownEffect)
	case ready == 0:
		a.add(Error, serviceObject, see, "none of %d endpoints is ready: %s", all, serviceDownEffect)
	case ready < all:
		a.add(Warning, serviceObject, see, "%d of %d endpoints %s ready", ready, all, verb(ready))
	}
	return a
}

// judgeAnswers judges whether the whole way from the API server to the webhook and back works. If it does, a dry-run creation returns with the
// webhook's stamp.
func judgeAnswers(seen Installation) answer {
	var a answer
	if addUnknown(&a, "", seen.NamedDryRuns); !seen.NamedDryRuns.Found {
		return a
	}
	stamped, gated := 0, 0
	for _, node := range seen.NamedDryRuns.Value {
		if _, ok := node.Annotations[policy.StampAnnotation]; ok {
			stamped++
			if seen.Gate().Present(node.Spec.Taints) {
				gated++
			}
		}
	}
	all := len(seen.NamedDryRuns.Value)
	if seen.emergency() {
		a.okText = "the API server does not call it in an emergency; see " + checkEmergency
		if stamped > 0 {
			a.addUnseenEmergency("", fmt.Sprintf("%d of %d dry-run creations of a Node return with the webhook's stamp", stamped, all))
		}
		return a
	}
	a.okText = fmt.Sprintf("the webhook answered %d of %d dry-run creations of a Node", stamped, all)
	log := seen.logsCommand(WebhookDeployment)
	switch {
	case stamped == 0:
		a.add(Error, "", newRemedy("What else is found here may say why. If nothing is, the API server's own log does, and the webhook's:", log),
			"a dry-run creation of a Node returns without the webhook's stamp: the API server does not call it, or the call fails. "+
				"Nodes wait behind the gate until capture has completed them")
	case stamped < all:
		a.add(Error, "", newRemedy("See which one is not well:", seen.podsCommand("webhook")),
			"only %d of %d dry-run creations of a Node returned with the webhook's stamp: calls of some replica fail", stamped, all)
	case gated > 0:
		a.add(Warning, "", newRemedy("Its log says since when:", log),
			"the webhook leaves the gate on a Node that lacks nothing (%d of %d): it does not receive the records, or has another --gate-key", gated, all)
	}
	return a
}

// judgeGateInForce judges whether Nodes are put behind the gate: a dry-run creation that the webhook lets pass carries it.
func judgeGateInForce(seen Installation) answer {
	var a answer
	if seen.lacksMutatingPolicies() {
		return answer{okText: "this API server has no such policies; see gate-policy"}
	}
	if addUnknown(&a, "", seen.UnnamedDryRun); !seen.UnnamedDryRun.Found {
		return a
	}
	gated := seen.Gate().Holds(seen.UnnamedDryRun.Value.Spec.Taints)
	if seen.emergency() {
		a.okText = "a dry-run creation of a Node returns without the gate; see " + checkEmergency
		if gated {
			a.addUnseenEmergency(gatePolicyObject, "a dry-run creation of a Node returns behind the gate, "+string(seen.Gate()))
		}
		return a
	}
	a.okText = "a dry-run creation of a Node returns behind the gate"
	if !gated {
		a.add(Error, gatePolicyObject,
			newRemedy("What else is found of the gate may say why; a new policy takes some seconds to be followed. The API server says what is wrong with it:",
				"kubectl get "+gatePolicyObject+" -o yaml"),
			"a dry-run creation of a Node returns without the gate, %s: %s", seen.Gate(), ungatedEffect)
	}
	return a
}
