package doctor

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/verify"
)

// Right is one kind of call to the API server.
type Right struct {
	Verb, Group, Resource string
	Name                  string // of the one object; empty: all
	Namespace             string // empty: the resource has none
}

// Denied reports in words that the caller lacks the right.
func (r Right) Denied() string {
	scope := "in the whole cluster"
	if r.Namespace != "" {
		scope = "in namespace " + r.Namespace
	}
	return fmt.Sprintf("you may not %s %s %s", r.Verb, r.fullResource(), scope)
}

// fullResource returns the resource with its API group, as kubectl takes it.
func (r Right) fullResource() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// CheckedRight is a right that the caller needs, and whether he has it.
type CheckedRight struct {
	Right
	Purpose string // what needs it
	Granted bool
}

// String returns the right as kubectl auth can-i takes it.
func (r Right) String() string {
	resource := r.fullResource()
	if r.Name != "" {
		resource += "/" + r.Name
	}
	if r.Namespace == "" {
		return r.Verb + " " + resource
	}
	return r.Verb + " " + resource + " in namespace " + r.Namespace
}

// missingRights are rights that a role in the cluster does not grant, and what follows. With an empty rightConsequence,
// it is what follows from a missing role.
type missingRights struct {
	rightConsequence
	rights []string
}

// rightConsequence is what follows from the lack of a right. It is for rights that do something else than the role as a whole.
type rightConsequence struct {
	role, resource, name string
	severity             Severity
	leadsTo              string
}

func rightConsequences() []rightConsequence {
	return []rightConsequence{
		{checksRole, "configmaps", verify.LedgerMap, Warning, unremovedEffect},
		{checksRole, "configmaps", "", Error, "reports of attempts that fail cannot be kept, so " + unverifiedEffect},
		{VerifyDeployment, "nodes/status", "", Warning, "the condition " + verify.Condition + " is not written"},
		{VerifyDeployment, "nodepolicies/status", "", Warning, "the NodePolicy does not say that the controller follows it"},
		{VerifyDeployment, "configmaps", "", Warning, "a controller that starts without a usable NodePolicy takes the defaults"},
	}
}

// lackingRights returns the rights of a shipped Role or ClusterRole that the role in the cluster does not grant. They are ordered by what follows. Rights
// that this installation does not need are not among them.
func (s Installation) lackingRights(object Object) (all []missingRights) {
	shipped, found, role := rulesOf(&object.Shipped), rulesOf(object.Live.Value), object.Shipped.GetName()
	for _, right := range expand(shipped, object.Shipped.GetNamespace()) {
		if allows(found, right) || allows(found, before136(right)) || !s.needsRight(role, right) {
			continue
		}
		var cause rightConsequence
		if i := slices.IndexFunc(rightConsequences(), func(h rightConsequence) bool {
			return h.role == role && h.resource == right.Resource && h.name == right.Name
		}); i >= 0 {
			cause = rightConsequences()[i]
		}
		i := slices.IndexFunc(all, func(o missingRights) bool { return o.rightConsequence == cause })
		if i < 0 {
			all, i = append(all, missingRights{rightConsequence: cause}), len(all)
		}
		all[i].rights = append(all[i].rights, right.String())
	}
	return all
}

// before136 returns what the chart grants in place of a right before Kubernetes 1.36. RBAC cannot limit impersonation to single
// requests there, so the chart grants plain impersonation.
func before136(right Right) Right {
	if strings.HasPrefix(right.Verb, "impersonate") {
		return Right{Verb: "impersonate", Resource: "users", Name: "system:node:" + guard.SelfTestName}
	}
	return right
}

// rulesOf returns the rules of a Role or ClusterRole; other objects have none.
func rulesOf(object *unstructured.Unstructured) []rbacv1.PolicyRule {
	var role rbacv1.ClusterRole
	if !strings.HasSuffix(object.GetKind(), "Role") || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role) != nil {
		return nil
	}
	return role.Rules
}

// allows reports whether one of the rules grants the right.
func allows(rules []rbacv1.PolicyRule, right Right) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return matches(rule.Verbs, right.Verb) && matches(rule.APIGroups, right.Group) && matches(rule.Resources, right.Resource) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, right.Name))
	})
}

// needsRight reports whether the options of this installation need the right: with other options the chart does not grant it.
func (s Installation) needsRight(role string, right Right) bool {
	switch {
	case right.Resource == "resourceslices":
		inForce, err := s.PolicyInForce()
		return err == nil && len(inForce.LabelRules().Drivers()) > 0
	case right.Resource == "nodefeatures":
		inForce, err := s.PolicyInForce()
		return err == nil && !inForce.LabelRules().NodeFeatures().Empty()
	case role == removalName:
		return s.needsRemoval(right)
	case role == checksRole && right.Resource == "configmaps" && right.Name == verify.LedgerMap:
		return s.Removes()
	case role != WebhookDeployment:
		return true
	case strings.HasPrefix(right.Verb, "impersonate"):
		return s.restoresInline()
	case right.Resource == "secrets" || strings.HasSuffix(right.Resource, "webhookconfigurations"):
		return s.selfSigned()
	case right.Resource == "nodes" || right.Resource == "configmaps" && (right.Verb == "create" || right.Verb == "patch"):
		return s.callsDeletionHook()
	}
	return true
}

// restoresInline reports whether protected labels are to be restored in the CREATE itself.
func (s Installation) restoresInline() bool {
	inForce, err := s.PolicyInForce()
	return err == nil && inForce.RestoresInline()
}

// expand lists the single rights of rules.
func expand(rules []rbacv1.PolicyRule, namespace string) (all []Right) {
	for _, rule := range rules {
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
	}
	return all
}

// The rights that commands need, by what they are for.
const (
	purposeSee = "see"
	purposeAct = "act"
)

// CallerRights returns those that the operator's commands need of the caller.
func CallerRights(namespace string) []CheckedRight {
	right := func(purpose, verb, resource, namespace string) CheckedRight {
		resource, group, _ := strings.Cut(resource, ".")
		return CheckedRight{Right: Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace}, Purpose: purpose}
	}
	return []CheckedRight{
		right(purposeSee, "get", "nodes", ""), right(purposeSee, "list", "nodes", ""),
		right(purposeSee, "get", "configmaps", namespace), right(purposeSee, "list", "configmaps", namespace),
		right(purposeSee, "get", PolicyCRD, ""),
		right(purposeAct, "patch", "nodes", ""),
		right(purposeAct, "create", "configmaps", namespace), right(purposeAct, "patch", "configmaps", namespace), right(purposeAct, "delete", "configmaps", namespace),
	}
}

// judgeCallerRights judges whether the caller may see what commands show. That he may not change everything is no fault.
func judgeCallerRights(seen Installation) answer {
	var a answer
	addUnknown(&a, "", seen.Caller)
	if addUnknown(&a, "", seen.CallerRights); !seen.CallerRights.Found {
		return a
	}
	var lacking []string
	for _, right := range seen.CallerRights.Value {
		switch {
		case right.Granted:
		case right.Purpose == purposeSee:
			a.add(SeverityUnknown, "", GrantTo(seen.Caller.Value, seen.Namespace, right.Right), "%s", right.Denied())
		default:
			lacking = append(lacking, right.String())
		}
	}
	a.okText = seen.Caller.Value + " may read and change Nodes and records"
	if len(lacking) > 0 {
		a.okText = seen.Caller.Value + " may read Nodes and records, and not " + strings.Join(slices.Compact(lacking), ", ")
	}
	return a
}
