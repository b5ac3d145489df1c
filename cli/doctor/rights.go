package doctor

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/webhook"
)

// Right is one kind of call to the API server.
type Right struct {
	Verb, Group, Resource string
	Name                  string // of the one object; empty: all
	Namespace             string // empty: the resource has none
}

// HeldRight is a right that somebody needs, and whether he has it.
type HeldRight struct {
	Right
	Account string // the ServiceAccount that needs it; empty: the caller
	For     string // what needs it
	Held    bool
	// Lacking says that the caller does not have it, as a look that is denied would.
	Lacking Unknown
}

// String is the right as kubectl auth can-i takes it.
func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Name != "" {
		resource += "/" + r.Name
	}
	if r.Namespace == "" {
		return r.Verb + " " + resource
	}
	return r.Verb + " " + resource + " in namespace " + r.Namespace
}

// grant is what a ServiceAccount may do, in a namespace or, where that is empty, in the whole cluster.
type grant struct {
	account   string
	namespace string
	rule      rbacv1.PolicyRule
	needed    func(Seen) bool
}

func always(Seen) bool { return true }

// grants are what the manifests give to the processes, as far as they need it in this installation.
func grants(namespace string) []grant {
	const core, admission, leases = "", "admissionregistration.k8s.io", "coordination.k8s.io"
	rule := func(group string, resources, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, ResourceNames: names, Verbs: verbs}
	}
	cluster := rule(core, []string{"namespaces"}, []string{metav1.NamespaceSystem}, "get")
	guards := rule(admission, []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, []string{guard.GuardName}, "get")
	strip := rule(admission, []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}, []string{guard.StripName}, "get")
	return []grant{
		{WebhookDeployment, namespace, rule(core, []string{"configmaps"}, nil, "get", "list", "watch"), always},
		{WebhookDeployment, namespace, rule(core, []string{"configmaps"}, nil, "create", "patch"), Seen.seesDeletions},
		{WebhookDeployment, "", rule(core, []string{"nodes"}, nil, "get"), Seen.seesDeletions},
		{WebhookDeployment, namespace, rule(core, []string{"secrets"}, []string{selfSignedSecret}, "get", "update"), Seen.selfSigned},
		{WebhookDeployment, "", rule(admission, []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, []string{Configuration}, "get", "patch"), Seen.selfSigned},
		{WebhookDeployment, "", cluster, always},
		{WebhookDeployment, "", guards, always},
		{WebhookDeployment, "", strip, always},
		{WebhookDeployment, "", rule(core, []string{"users"}, []string{"system:node:" + webhook.SelfTestNode}, "impersonate"), Seen.inline},
		{WebhookDeployment, "", rule(core, []string{"groups"}, []string{"system:nodes"}, "impersonate"), Seen.inline},

		{CaptureDeployment, namespace, rule(core, []string{"configmaps"}, nil, "get", "list", "watch", "create", "patch", "delete"), always},
		{CaptureDeployment, namespace, rule(core, []string{"events"}, nil, "create", "patch"), always},
		{CaptureDeployment, namespace, rule(leases, []string{"leases"}, nil, "create"), always},
		{CaptureDeployment, namespace, rule(leases, []string{"leases"}, []string{capture.LeaseName}, "get", "update"), always},
		{CaptureDeployment, "", rule(core, []string{"nodes"}, nil, "get", "list", "watch", "patch"), always},
		{CaptureDeployment, "", cluster, always},
		{CaptureDeployment, "", guards, always},
		{CaptureDeployment, "", strip, always},
		{CaptureDeployment, namespace, rule("nodekeep.dev", []string{"gates"}, nil, "close"), Seen.gatesNodes},
		{CaptureDeployment, "default", rule(core, []string{"events"}, nil, "create", "patch"), always},

		{WebhookDeployment, "", rule("authentication.k8s.io", []string{"tokenreviews"}, nil, "create"), func(s Seen) bool { return set(s.Webhook, "metrics-secure") }},
		{WebhookDeployment, "", rule("authorization.k8s.io", []string{"subjectaccessreviews"}, nil, "create"), func(s Seen) bool { return set(s.Webhook, "metrics-secure") }},
		{CaptureDeployment, "", rule("authentication.k8s.io", []string{"tokenreviews"}, nil, "create"), func(s Seen) bool { return set(s.Capture, "metrics-secure") }},
		{CaptureDeployment, "", rule("authorization.k8s.io", []string{"subjectaccessreviews"}, nil, "create"), func(s Seen) bool { return set(s.Capture, "metrics-secure") }},
	}
}

// seesDeletions reports whether the API server is told to call the webhook for Nodes that are deleted.
func (s Seen) seesDeletions() bool { return s.Validating.Found }

// gatesNodes reports whether the gate policy is installed, which asks for that right of capture's.
func (s Seen) gatesNodes() bool { return s.GatePolicy.Found }

// inline reports whether protected labels are to be restored in the CREATE itself.
func (s Seen) inline() bool {
	inForce, err := s.InForce()
	return err == nil && inForce.RestoresInline()
}

// AccountRights are those that the processes need in this installation.
func AccountRights(seen Seen) (all []HeldRight) {
	for _, grant := range grants(seen.Namespace) {
		if !grant.needed(seen) {
			continue
		}
		for _, right := range expand(grant.rule, grant.namespace) {
			all = append(all, HeldRight{Right: right, Account: grant.account})
		}
	}
	return all
}

// expand lists the single rights of a rule.
func expand(rule rbacv1.PolicyRule, namespace string) (all []Right) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all = append(all, Right{Verb: verb, Group: group, Resource: resource, Name: name, Namespace: namespace})
				}
			}
		}
	}
	return all
}

// judgeAccountRights says whether the processes may do what they have to.
func judgeAccountRights(seen Seen) answer {
	var a answer
	lacks(&a, "", seen.Accounts)
	a.ok = fmt.Sprintf("all %d that the two processes need", len(seen.Accounts.Value))
	for _, account := range []string{WebhookDeployment, CaptureDeployment} {
		var missing []string
		for _, right := range seen.Accounts.Value {
			if right.Account == account && !right.Held {
				missing = append(missing, right.String())
			}
		}
		if len(missing) > 0 {
			a.add(Finding{Severity: Error, Object: "serviceaccount/" + account, What: "it may not " + strings.Join(missing, ", "), Remedy: reinstall()})
		}
	}
	return a
}

// The rights that commands need, by what they are for.
const (
	toSee = "see"
	toAct = "act"
)

// YourRights are those that the operator's commands need of the caller.
func YourRights(namespace string) []HeldRight {
	right := func(purpose, verb, resource, in string) HeldRight {
		return HeldRight{Right: Right{Verb: verb, Resource: resource, Namespace: in}, For: purpose}
	}
	return []HeldRight{
		right(toSee, "get", "nodes", ""), right(toSee, "list", "nodes", ""),
		right(toSee, "get", "configmaps", namespace), right(toSee, "list", "configmaps", namespace),
		right(toAct, "patch", "nodes", ""),
		right(toAct, "create", "configmaps", namespace), right(toAct, "patch", "configmaps", namespace), right(toAct, "delete", "configmaps", namespace),
	}
}

// judgeYourRights says whether the caller may see what commands show. That he may not change everything is no fault.
func judgeYourRights(seen Seen) answer {
	var a answer
	lacks(&a, "", seen.You)
	if lacks(&a, "", seen.Yours); !seen.Yours.Found {
		return a
	}
	var lacking []string
	for _, right := range seen.Yours.Value {
		switch {
		case right.Held:
		case right.For == toSee:
			a.add(Finding{Severity: Lacking, What: right.Lacking.Why, Remedy: right.Lacking.Remedy})
		default:
			lacking = append(lacking, right.String())
		}
	}
	a.ok = seen.You.Value + " may see and change everything"
	if len(lacking) > 0 {
		a.ok = seen.You.Value + " may see everything, and not " + strings.Join(slices.Compact(lacking), ", ")
	}
	return a
}
