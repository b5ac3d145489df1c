package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

type access = authorizationv1.ResourceAttributes

// mayAccess reports whether the API server allows a client something.
func mayAccess(t *testing.T, client *kubernetes.Clientset, key access) bool {
	t.Helper()
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &key},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.Allowed
}

// That each process can do what it must is shown by all other tests: they run as these ServiceAccounts.
func TestTheServiceAccountsMayDoNothingElse(t *testing.T) {
	common := map[string]access{
		"create Nodes":                {Verb: "create", Resource: "nodes"},
		"delete Nodes":                {Verb: "delete", Resource: "nodes"},
		"update the status of Nodes":  {Verb: "update", Resource: "nodes", Subresource: "status"},
		"read pods":                   {Verb: "get", Resource: "pods", Namespace: harness.Namespace},
		"create pods":                 {Verb: "create", Resource: "pods", Namespace: harness.Namespace},
		"read other Secrets":          {Verb: "get", Resource: "secrets", Namespace: harness.Namespace, Name: "other"},
		"list Secrets":                {Verb: "list", Resource: "secrets", Namespace: harness.Namespace},
		"create Secrets":              {Verb: "create", Resource: "secrets", Namespace: harness.Namespace},
		"read Secrets elsewhere":      {Verb: "get", Resource: "secrets", Namespace: "kube-system", Name: "nodekeep-webhook-tls"},
		"delete all records at once":  {Verb: "deletecollection", Resource: "configmaps", Namespace: harness.Namespace},
		"delete ConfigMaps elsewhere": {Verb: "delete", Resource: "configmaps", Namespace: "kube-system"},
		"read ConfigMaps elsewhere":   {Verb: "list", Resource: "configmaps", Namespace: "kube-system"},
		"write ConfigMaps elsewhere":  {Verb: "create", Resource: "configmaps", Namespace: "kube-system"},
		"change other webhooks":       {Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Name: "other"},
		"create webhooks":             {Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		"change the guard policy":     {Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Name: "nodekeep-guard"},
		"delete the guard's binding":  {Verb: "delete", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings", Name: "nodekeep-guard"},
		"change the strip policy":     {Verb: "update", Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies", Name: "nodekeep-strip"},
		"read other policies":         {Verb: "get", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Name: "other"},
		"read the gate policy":        {Verb: "get", Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies", Name: "nodekeep-gate"},
		"list policies":               {Verb: "list", Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"},
		"read the gate's off switch":  {Verb: "get", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: harness.Namespace, Name: "nodekeep-gate"},
		"declare an emergency":        {Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: harness.Namespace},
		"end an emergency":            {Verb: "delete", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: harness.Namespace, Name: "nodekeep-emergency"},
		"bind roles":                  {Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
		"impersonate":                 {Verb: "impersonate", Resource: "users", Name: "system:admin"},
		"read Events of the release":  {Verb: "list", Resource: "events", Namespace: harness.Namespace},
		"delete Events":               {Verb: "delete", Resource: "events", Namespace: harness.Namespace},
		"write Events elsewhere":      {Verb: "create", Resource: "events", Namespace: "kube-system"},
		"read NodeFeature objects":    {Verb: "list", Group: "nfd.k8s-sigs.io", Resource: "nodefeatures"},
		"read ResourceSlices":         {Verb: "list", Group: "resource.k8s.io", Resource: "resourceslices"},
		"change the policy":           {Verb: "patch", Group: "nodekeep.dev", Resource: "nodepolicies", Name: harness.PolicyName},
		"replace the policy":          {Verb: "update", Group: "nodekeep.dev", Resource: "nodepolicies", Name: harness.PolicyName},
		"create a policy":             {Verb: "create", Group: "nodekeep.dev", Resource: "nodepolicies"},
		"delete the policy":           {Verb: "delete", Group: "nodekeep.dev", Resource: "nodepolicies", Name: harness.PolicyName},
		"change the policy's kind":    {Verb: "patch", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "nodepolicies.nodekeep.dev"},
		"take other Leases":           {Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: harness.Namespace, Name: "other"},
	}
	rest := map[string]map[string]access{
		"nodekeep-webhook": {
			"patch Nodes":                           {Verb: "patch", Resource: "nodes"},
			"list Nodes":                            {Verb: "list", Resource: "nodes"},
			"watch Nodes":                           {Verb: "watch", Resource: "nodes"},
			"delete records":                        {Verb: "delete", Resource: "configmaps", Namespace: harness.Namespace},
			"write Events":                          {Verb: "create", Resource: "events", Namespace: "default"},
			"write Events in the release namespace": {Verb: "create", Resource: "events", Namespace: harness.Namespace},
		},
		"nodekeep-capture": {
			"read the webhook's certificate":        {Verb: "get", Resource: "secrets", Namespace: harness.Namespace, Name: "nodekeep-webhook-tls"},
			"change the webhook":                    {Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Name: "nodekeep"},
			"read Events":                           {Verb: "list", Resource: "events", Namespace: "default"},
			"write Events in the release namespace": {Verb: "create", Resource: "events", Namespace: harness.Namespace},
		},
	}
	reads := map[string]access{
		"read the policy":             {Verb: "get", Group: "nodekeep.dev", Resource: "nodepolicies", Name: harness.PolicyName},
		"follow the policy":           {Verb: "watch", Group: "nodekeep.dev", Resource: "nodepolicies"},
		"read the guard policy":       {Verb: "get", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Name: "nodekeep-guard"},
		"read the binding of a guard": {Verb: "get", Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings", Name: "nodekeep-strip"},
	}
	extra := map[string]map[string]access{
		"nodekeep-webhook": {
			"read Nodes": {Verb: "get", Resource: "nodes"},
		},
		"nodekeep-capture": {
			"delete records": {Verb: "delete", Resource: "configmaps", Namespace: harness.Namespace},
			"write Events about Nodes and the policy": {Verb: "create", Resource: "events", Namespace: "default"},
		},
	}
	for account, current := range rest {
		client := nodekeep.ClientFor(t, account)
		for _, set := range []map[string]access{common, current} {
			for subject, attributes := range set {
				t.Run(account+" may not "+subject, func(t *testing.T) { assert.False(t, mayAccess(t, client, attributes)) })
			}
		}
		for _, set := range []map[string]access{reads, extra[account]} {
			for subject, attributes := range set {
				t.Run(account+" may "+subject, func(t *testing.T) { assert.True(t, mayAccess(t, client, attributes)) })
			}
		}
	}
}
