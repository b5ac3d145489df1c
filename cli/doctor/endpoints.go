package doctor

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"

	"nodekeep.dev/nodekeep/policy"
)

// byService reports whether the API server calls the webhook by its Service, as far as is known.
func (s Seen) byService() bool {
	hooks := s.hooks()
	for _, hook := range hooks {
		if hook.client.Service != nil {
			return true
		}
	}
	return len(hooks) == 0
}

// judgeEndpoints judges whether there is anybody behind the Service.
func judgeEndpoints(seen Seen) answer {
	if !seen.byService() {
		return answer{ok: "the API server calls a URL, no Service"}
	}
	var a answer
	seen.compare(&a, checkEndpoints)
	lacks(&a, serviceObject, seen.Endpoints)
	if !seen.Endpoints.Found || seen.object(serviceObject).Found.Absent {
		return a
	}
	ready, all := 0, 0
	for _, slice := range seen.Endpoints.Value {
		for _, endpoint := range slice.Endpoints {
			if all++; isReady(endpoint) {
				ready++
			}
		}
	}
	a.ok = fmt.Sprintf("%d ready", ready)
	see := Remedy{Text: "See what keeps them:", Commands: []string{
		fmt.Sprintf("kubectl -n %s get endpointslices -l %s=%s", seen.Namespace, discoveryv1.LabelServiceName, Service), pods(seen.Namespace, "webhook"),
	}}
	switch {
	case ready == 0:
		a.add(Finding{Severity: Error, Object: serviceObject, What: fmt.Sprintf("none of %d endpoints is ready: %s", all, uncalled), Remedy: see})
	case ready < all:
		a.add(Finding{Severity: Warning, Object: serviceObject, What: fmt.Sprintf("%d of %d endpoints are ready", ready, all), Remedy: see})
	}
	return a
}

// isReady is that of an endpoint; one that says nothing is.
func isReady(endpoint discoveryv1.Endpoint) bool {
	return endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
}

// judgeAnswers judges whether the whole way from the API server to the webhook and back works. If it does, a dry-run creation returns with the
// webhook's stamp.
func judgeAnswers(seen Seen) answer {
	var a answer
	if lacks(&a, "", seen.Named); !seen.Named.Found {
		return a
	}
	stamped, gated := 0, 0
	for _, node := range seen.Named.Value {
		if _, is := node.Annotations[policy.StampAnnotation]; is {
			stamped++
			if seen.Gate().On(node.Spec.Taints) {
				gated++
			}
		}
	}
	all := len(seen.Named.Value)
	a.ok = fmt.Sprintf("%d of %d dry-run creations of a Node", stamped, all)
	switch {
	case stamped == 0:
		a.add(Finding{
			Severity: Error, What: "a dry-run creation of a Node returns without the webhook's stamp: the API server does not call it, or the call fails. Nodes wait behind the gate until capture has completed them",
			Remedy: Remedy{Text: "What else is found here may say why. If nothing is, the API server's own log does, and the webhook's:", Commands: []string{logs(seen.Namespace, WebhookDeployment)}},
		})
	case stamped < all:
		a.add(Finding{
			Severity: Error, What: fmt.Sprintf("only %d of %d dry-run creations of a Node returned with the webhook's stamp: calls of some replica fail", stamped, all),
			Remedy: Remedy{Text: "See which one is not well:", Commands: []string{pods(seen.Namespace, "webhook")}},
		})
	case gated > 0:
		a.add(Finding{
			Severity: Warning, What: fmt.Sprintf("the webhook leaves the gate on a Node that lacks nothing (%d of %d): it hears nothing of the records, or has another --gate-key", gated, all),
			Remedy: Remedy{Text: "Its log says since when:", Commands: []string{logs(seen.Namespace, WebhookDeployment)}},
		})
	}
	return a
}

// judgeGateInForce judges whether Nodes are put behind the gate: a dry-run creation that the webhook lets pass carries it.
func judgeGateInForce(seen Seen) answer {
	var a answer
	if seen.lacksMutatingPolicies() {
		return answer{ok: "this API server has no such policies; see gate-policy"}
	}
	if lacks(&a, "", seen.Unnamed); !seen.Unnamed.Found {
		return a
	}
	a.ok = "a dry-run creation of a Node returns behind it"
	if !seen.Gate().Holds(seen.Unnamed.Value.Spec.Taints) {
		a.add(Finding{
			Severity: Error, Object: gatePolicyObject,
			What:   "a dry-run creation of a Node returns without the gate, " + string(seen.Gate()) + ": " + ungated,
			Remedy: Remedy{Text: "What else is found of the gate may say why; a new policy takes some seconds to be followed. The API server says what is wrong with it:", Commands: []string{"kubectl get " + gatePolicyObject + " -o yaml"}},
		})
	}
	return a
}
