package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAllowedForKubelet(t *testing.T) {
	tests := map[string]struct {
		key  string
		want bool
	}{
		"any annotation":                                   {"@team.node-restriction.kubernetes.io/x", true},
		"a key without a domain":                           {"disktype", true},
		"a key of another domain":                          {"nvidia.com/gpu", true},
		"Cluster API's domain only looks like k8s.io":      {"node.cluster.x-k8s.io/pool", true},
		"a domain that ends in the letters kubernetes.io":  {"mykubernetes.io/x", true},
		"a name that reads like a protected domain":        {"node-restriction.kubernetes.io", true},
		"the host name, which kubelets set":                {"kubernetes.io/hostname", true},
		"the zone, which kubelets set":                     {"topology.kubernetes.io/zone", true},
		"anything under node.kubernetes.io":                {"node.kubernetes.io/anything", true},
		"anything under a subdomain of it":                 {"feature.node.kubernetes.io/cpu", true},
		"anything under kubelet.kubernetes.io":             {"kubelet.kubernetes.io/anything", true},
		"a role":                                           {"node-role.kubernetes.io/worker", false},
		"an isolation label":                               {"node-restriction.kubernetes.io/tier", false},
		"an isolation label of a team":                     {"team.node-restriction.kubernetes.io/tier", false},
		"an isolation label dressed up as a kubelet's":     {"node.kubernetes.io.node-restriction.kubernetes.io/tier", false},
		"an isolation domain inside node.kubernetes.io":    {"node-restriction.kubernetes.io.node.kubernetes.io/tier", true},
		"another key of kubernetes.io":                     {"kubernetes.io/role", false},
		"another key of a subdomain":                       {"app.kubernetes.io/name", false},
		"a kubelet's key with another ending":              {"kubernetes.io/hostname2", false},
		"another key next to the zone":                     {"topology.kubernetes.io/rack", false},
		"a key of k8s.io":                                  {"k8s.io/anything", false},
		"a key of a subdomain of k8s.io":                   {"kops.k8s.io/instancegroup", false},
		"a subdomain that only looks like node.kubernetes": {"mynode.kubernetes.io/x", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, AllowedForKubelet(tt.key))
		})
	}
}
