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
		"a feature of somebody's own domain":     {annotations{nfd: "example.com/rack"}, []string{"example.com/rack"}},
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

func TestKeepLeavesOutWhatIsClaimed(t *testing.T) {
	node := Metadata{
		Items:   map[string]string{"dedicated": "ci", "example.com/rack": "7", "disktype": "ssd"},
		Owners:  map[string][]string{"dedicated": {"kubectl"}},
		Claimed: []string{"dedicated", "example.com/rack", "gone"},
	}
	assert.Equal(t, map[string]string{"disktype": "ssd"}, kept(Default(), node))
	assert.Equal(t, map[string]string{}, kept(policyWith(t, `{keep: [dedicated]}`), node), "its owner sets it again, whatever the policy names")
}

func TestRestoresInline(t *testing.T) {
	assert.False(t, Default().RestoresInline())
	assert.False(t, policyWith(t, `{protected: never}`).RestoresInline())
	assert.True(t, policyWith(t, `{protected: inline}`).RestoresInline())
}

func FuzzClaimed(f *testing.F) {
	for _, value := range []string{"", ",", "a", "a,b", " a , example.com/b ", "/", "a/b/c", "\xff,"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		keys := Claimed(map[string]string{featureLabels: value, machineLabels: value})
		assert.LessOrEqual(t, len(keys), 2*(strings.Count(value, ",")+1))
		for _, key := range keys {
			assert.NotEmpty(t, key)
			assert.NotContains(t, key, ",")
			assert.Equal(t, strings.TrimSpace(key), key)
		}
	})
}
