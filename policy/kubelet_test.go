package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/kubelet/pkg/apis"

	"nodekeep.dev/nodekeep/record"
)

func TestAllowedForKubelet(t *testing.T) {
	tests := map[string]struct {
		key  string
		want bool
	}{
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
			assert.Equal(t, tt.want, !nodeRestrictionForbids(tt.key), "NodeRestriction itself sees it otherwise")
		})
	}
}

func TestAllowedForKubeletAgreesWithKubernetes(t *testing.T) {
	keys := manyKeys()
	require.Greater(t, len(keys), 5000)
	forbidden := 0
	for _, key := range keys {
		if nodeRestrictionForbids(key) {
			forbidden++
		}
		assert.Equal(t, !nodeRestrictionForbids(key), AllowedForKubelet(key), "key %q", key)
	}
	assert.Greater(t, forbidden, len(keys)/5, "the keys should be of both kinds")
	assert.Less(t, forbidden, len(keys)*4/5, "the keys should be of both kinds")
}

func FuzzAllowedForKubelet(f *testing.F) {
	for _, key := range []string{
		"", "/", "disktype", "kubernetes.io/", "/kubernetes.io", "kubernetes.io/hostname", "a/kubernetes.io/hostname", "k8s.io/x/y",
		"node-restriction.kubernetes.io/tier", ".node-restriction.kubernetes.io/x", "node.kubernetes.io/\xff", "Kubernetes.io/x",
		"@", "@team.node-restriction.kubernetes.io/x",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if record.IsAnnotation(key) { // no label key starts with @, and NodeRestriction leaves annotations to kubelets
			assert.True(t, AllowedForKubelet(key))
			return
		}
		assert.Equal(t, !nodeRestrictionForbids(key), AllowedForKubelet(key))
	})
}

// nodeRestrictionForbids is the rule of the admission plugin, getForbiddenLabels in plugin/pkg/admission/noderestriction of
// k8s.io/kubernetes, written anew over the package that it takes its vocabulary from.
func nodeRestrictionForbids(key string) bool {
	domain := ""
	if at := strings.Index(key, "/"); at >= 0 {
		domain = key[:at]
	}
	under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if under("node-restriction.kubernetes.io") {
		return true
	}
	return (under("kubernetes.io") || under("k8s.io")) && !apis.IsKubeletLabel(key)
}

// manyKeys makes keys around everything that Kubernetes itself lists, right ones and near misses.
func manyKeys() []string {
	domains := append(apis.KubeletLabelNamespaces(),
		"", "kubernetes.io", "k8s.io", "node-restriction.kubernetes.io", "node-role.kubernetes.io", "app.kubernetes.io",
		"kops.k8s.io", "x-k8s.io", "cluster.x-k8s.io", "example.com", "nvidia.com", "karpenter.sh")
	names := []string{"", "worker", "tier", "role", "hostname/x"}
	for _, key := range apis.KubeletLabels() {
		domain, name, _ := strings.Cut(key, "/")
		domains, names = append(domains, domain), append(names, name)
	}
	keys := append(apis.KubeletLabels(), names...)
	for _, before := range []string{"", ".", "a.", "a.b.", "x", "evil-", "node.", "node-restriction.", "kubelet.kubernetes.io."} {
		for _, domain := range domains {
			for _, after := range []string{"", ".", ".io", "x", ".kubernetes.io"} {
				for _, name := range names {
					keys = append(keys, before+domain+after+"/"+name)
				}
			}
		}
	}
	return keys
}
