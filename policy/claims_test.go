package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClaimed(t *testing.T) {
	const nfd, capi = "nfd.node.kubernetes.io/feature-labels", "cluster.x-k8s.io/labels-from-machine"
	type annotations = map[string]string
	tests := map[string]struct {
		annotations annotations
		want        []string
	}{
		"no annotations":                         {nil, nil},
		"annotations of others":                  {annotations{"example.com/feature-labels": "dedicated"}, nil},
		"empty lists":                            {annotations{nfd: "", capi: " , "}, nil},
		"a feature without a prefix":             {annotations{nfd: "cpu-cpuid.AVX"}, []string{"feature.node.kubernetes.io/cpu-cpuid.AVX"}},
		"a feature of a user's own domain":       {annotations{nfd: "example.com/rack"}, []string{"example.com/rack"}},
		"several features, with spaces":          {annotations{nfd: "a, example.com/b ,,c"}, []string{"feature.node.kubernetes.io/a", "example.com/b", "feature.node.kubernetes.io/c"}},
		"a label of the Machine needs no prefix": {annotations{capi: "dedicated,node-role.kubernetes.io/worker"}, []string{"dedicated", "node-role.kubernetes.io/worker"}},
		"both":                                   {annotations{capi: "dedicated", nfd: "example.com/b"}, []string{"example.com/b", "dedicated"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Claimed(tt.annotations))
		})
	}
}

func TestClaimsNameWhatClusterAPIAndTalosSetAndAreNotObeyed(t *testing.T) {
	const capi, talosLabels, talosTaints = "cluster.x-k8s.io/taints-from-machine", "talos.dev/owned-labels", "talos.dev/owned-taints"
	const talosAnnotations = "talos.dev/owned-annotations"
	keeping := loadPolicy(t, "annotations: [example.com/slot]\n")
	type annotations = map[string]string
	tests := map[string]struct {
		annotations annotations
		item        string
		owner       string // empty: nobody claims the item
	}{
		"a taint of the Machine with a value":             {annotations{capi: "a:NoSchedule, tenant=blue:NoExecute"}, "tenant:NoExecute", "Cluster API"},
		"a taint of the Machine without one":              {annotations{capi: "tenant:NoExecute"}, "tenant:NoExecute", "Cluster API"},
		"that taint with another effect":                  {annotations{capi: "tenant:NoExecute"}, "tenant:NoSchedule", ""},
		"a taint of the Machine without an effect":        {annotations{capi: "tenant=blue:"}, "tenant:NoSchedule", "Cluster API"},
		"a taint of the Machine that is a key":            {annotations{capi: "tenant"}, "tenant:NoSchedule", "Cluster API"},
		"a label with the key of a taint of the Machine":  {annotations{capi: "tenant"}, "tenant", ""},
		"a key that begins with a claimed one":            {annotations{capi: "tenant"}, "tenant2:NoSchedule", ""},
		"a label of the machine configuration":            {annotations{talosLabels: `["rack", "node-role.kubernetes.io/gpu"]`}, "node-role.kubernetes.io/gpu", "Talos"},
		"a taint with the key of such a label":            {annotations{talosLabels: `["rack"]`}, "rack:NoSchedule", ""},
		"a taint of the machine configuration":            {annotations{talosTaints: `["tenant"]`}, "tenant:NoExecute", "Talos"},
		"a label with the key of such a taint":            {annotations{talosTaints: `["tenant"]`}, "tenant", ""},
		"an annotation of the machine configuration":      {annotations{talosAnnotations: `["example.com/slot"]`}, "@example.com/slot", "Talos"},
		"a label with the key of such an annotation":      {annotations{talosAnnotations: `["example.com/slot"]`}, "example.com/slot", ""},
		"a list that is no JSON":                          {annotations{talosTaints: `tenant`}, "tenant:NoExecute", ""},
		"a claim that decides what nodekeep leaves alone": {annotations{"cluster.x-k8s.io/labels-from-machine": "rack"}, "rack", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var owner string
			for _, claim := range Claims(tt.annotations) {
				if claim.Covers(tt.item) {
					owner = claim.Owner
					assert.Contains(t, tt.annotations, claim.Annotation)
				}
			}
			assert.Equal(t, tt.owner, owner)
			if owner != "" {
				node := Metadata{Items: map[string]string{tt.item: ""}, Claimed: Claimed(tt.annotations)}
				assert.True(t, keeping.Judge(node, tt.item).Keeps, "such a claim is shown, not obeyed")
			}
		})
	}
	assert.Len(t, Claims(annotations{capi: strings.Repeat("a,", 5000)}), maxClaims)
}

func TestKeepLeavesOutWhatIsClaimed(t *testing.T) {
	node := Metadata{
		Items:   map[string]string{"dedicated": "ci", "example.com/rack": "7", "disktype": "ssd"},
		Owners:  map[string][]string{"dedicated": {"kubectl"}},
		Claimed: []string{"dedicated", "example.com/rack", "gone"},
	}
	assert.Equal(t, map[string]string{"disktype": "ssd"}, kept(Default(), node))
	assert.Equal(t, map[string]string{}, kept(policyWith(t, `{keep: [dedicated]}`), node), "its owner sets it again, whatever the policy names")
}

func FuzzClaimed(f *testing.F) {
	for _, value := range []string{"", ",", "a", "a,b", " a , example.com/b ", "/", "a/b/c", "\xff,", `["a"]`, `[null, 1]`, "a=b:NoSchedule"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, claim := range Claims(map[string]string{machineTaints: value, talosLabels: value, talosTaints: value, talosAnnotations: value}) {
			assert.True(t, claim.Covers(claim.item))
		}
		keys := Claimed(map[string]string{featureLabels: value, machineLabels: value})
		assert.LessOrEqual(t, len(keys), 2*(strings.Count(value, ",")+1))
		for _, key := range keys {
			assert.NotEmpty(t, key)
			assert.NotContains(t, key, ",")
			assert.Equal(t, strings.TrimSpace(key), key)
		}
	})
}
