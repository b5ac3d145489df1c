package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestTheClientsOfOperatorsAsTheyCallThemselves(t *testing.T) {
	for name, c := range map[string]struct {
		labels   string
		managers []string
		want     bool
	}{
		"kubectl":                              {"{}", []string{"kubectl-label"}, true},
		"Ansible and other OpenAPI clients":    {"{}", []string{"OpenAPI-Generator"}, true},
		"Lens":                                 {"{}", []string{"node-fetch"}, true},
		"Rancher":                              {"{}", []string{"rancher"}, true},
		"Argo CD":                              {"{}", []string{"argocd-controller"}, true},
		"Flux":                                 {"{}", []string{"kustomize-controller"}, true},
		"Flux with Helm":                       {"{}", []string{"helm-controller"}, true},
		"Headlamp":                             {"{}", []string{"headlamp-server"}, true},
		"a script":                             {"{}", []string{"python-requests"}, true},
		"Java":                                 {"{}", []string{"okhttp"}, true},
		"Crossplane":                           {"{}", []string{"crossplane-kubernetes-provider"}, true},
		"two of them":                          {"{}", []string{"kubectl", "Terraform"}, true},
		"a controller":                         {"{}", []string{"karpenter"}, false},
		"a controller without a name":          {"{}", []string{"Go-http-client"}, false},
		"an operator and a controller":         {"{}", []string{"kubectl", "manager"}, false},
		"no manager":                           {"{}", nil, false},
		"one that the policy names":            {"{operators: [node-tool]}", []string{"node-tool"}, true},
		"a known one next to it":               {"{operators: [node-tool]}", []string{"kubectl"}, true},
		"one that the policy ignores in a set": {"{ignoreManagers: [argocd-old]}", []string{"argocd-old"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, loadPolicy(t, "labels: "+c.labels).AreOperators(c.managers))
		})
	}
}

func TestIgnoredManagersAndOperatorsDoNotContradictEachOtherSilently(t *testing.T) {
	for name, c := range map[string]struct{ labels, err string }{
		"all managers": {`{operators: [a], ignoreManagers: [kubelet, "*"]}`, "spec.labels.ignoreManagers[1]: Invalid value: \"*\": covers a, which labels.operators names"},
		"the same one": {`{operators: [a], ignoreManagers: [a]}`, "covers a,"},
		"no name":      {`{operators: [""]}`, "spec.labels.operators[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(policytest.Manifest("labels: "+c.labels)), DefaultGate)
			assert.ErrorContains(t, err, c.err)
		})
	}
	assert.Empty(t, loadPolicy(t, `labels: {operators: ["node-*"], ignoreManagers: [node-vendor, kubectl-vendor]}`).Warnings(), "an exception")
	assert.Equal(t, []string{"labels.ignoreManagers has kubectl*, which covers kubectl*, a client of operators: what only it sets is not kept"},
		loadPolicy(t, `labels: {ignoreManagers: ["kubectl*"]}`).Warnings())
}
