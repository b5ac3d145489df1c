package policy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
)

// operatorsClients returns the managers that operators change Nodes with, as these call themselves. A client that chooses no manager has the
// first part of its User-Agent. A controller may have any other name.
func operatorsClients() patterns {
	return patterns{
		"kubectl*", "oc", "k9s", "kubeadm",
		"Mozilla",    // consoles in a browser
		"node-fetch", // Lens
		"headlamp*", "Headlamp*",
		"Terraform*", "HashiCorp*", "pulumi-kubernetes*", "crossplane*",
		"ansible*", "OpenAPI-Generator", // Ansible, and all other clients that are generated from the OpenAPI
		"python-requests", "okhttp", // scripts, and the client of Java
		"argocd*", "kustomize-controller", "helm", "helm-controller", "rancher",
	}
}

// readManagers checks the field managers that the policy names. A pattern of labels.ignoreManagers that covers one of labels.operators would
// silently decide against it.
func (p *Policy) readManagers(labels *field.Path) (errs field.ErrorList) {
	for _, list := range []struct {
		name     string
		managers patterns
	}{{"ignoreManagers", p.ignoreManagers}, {"operators", p.operators}} {
		for i, manager := range list.managers {
			if manager == "" {
				errs = append(errs, field.Required(labels.Child(list.name).Index(i), "must be the name of a field manager; '*' stands for any characters"))
			}
		}
	}
	for i, ignored := range p.ignoreManagers {
		if operator, covered := p.operators.coveredBy(ignored); covered {
			errs = append(errs, field.Invalid(labels.Child("ignoreManagers").Index(i), ignored,
				fmt.Sprintf("covers %s, which labels.operators names as a client of operators: it can be in one of the two only", operator)))
		}
	}
	return errs
}

// managerWarnings names the clients of operators that labels.ignoreManagers ignores.
func (p Policy) managerWarnings() (warnings []string) {
	for _, ignored := range p.ignoreManagers {
		if operator, covered := operatorsClients().coveredBy(ignored); covered {
			warnings = append(warnings, fmt.Sprintf("labels.ignoreManagers has %s, which covers %s, a client of operators: what only it sets is not kept", ignored, operator))
		}
	}
	return warnings
}

// coveredBy finds the first pattern that matches nothing but what another one matches.
func (p patterns) coveredBy(second string) (pattern string, covered bool) {
	i := slices.IndexFunc(p, func(pattern string) bool { return classify.Match(second, pattern) })
	if i < 0 {
		return "", false
	}
	return p[i], true
}

// AreOperators reports whether each of some managers is a client that operators change Nodes with. No manager at all is none.
func (p Policy) AreOperators(managers []string) bool {
	return len(managers) > 0 && !slices.ContainsFunc(managers, func(manager string) bool { return !p.ofOperators(manager) })
}

func (p Policy) ofOperators(manager string) bool {
	if _, ignored := p.ignoreManagers.match(manager); ignored {
		return false
	}
	_, known := operatorsClients().match(manager)
	_, named := p.operators.match(manager)
	return known || named
}
