package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/store"
)

func TestName(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	tests := map[string]struct{ node, want string }{
		"a short name stays readable":                      {"worker-1", "node.worker-1"},
		"a name with dots":                                 {"worker-1.example.com", "node.worker-1.example.com"},
		"a name that looks like a record's":                {"node.worker-1", "node.node.worker-1"},
		"the longest name that fits":                       {a(248), "node." + a(248)},
		"one letter more":                                  {a(249), "node." + a(231) + ".d2cdb8b708fa2ff7"},
		"the longest name there is":                        {a(253), "node." + a(231) + ".32859a3ab65ac529"},
		"a hyphen before the cut":                          {a(230) + "-" + a(22), "node." + a(230) + ".c084de1d08db339c"},
		"a dot before the cut":                             {a(230) + "." + a(22), "node." + a(230) + ".48c8e9c02dee9140"},
		"many hyphens before the cut":                      {a(200) + strings.Repeat("-", 40) + a(13), "node." + a(200) + ".f5fd9d4a46baadc1"},
		"nearly nothing but hyphens":                       {"a" + strings.Repeat("-", 251) + "a", "node.a.8b39019827c50cf4"},
		"dots and hyphens right after the cut are no harm": {a(231) + "-" + a(21), "node." + a(231) + ".9bbe1ec11357dc59"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, validation.IsDNS1123Subdomain(tt.node), "not a Node's name")
			got := store.Name(tt.node)
			assert.Equal(t, tt.want, got)
			assert.Empty(t, validation.IsDNS1123Subdomain(got))
		})
	}
}

func TestLongNamesThatDifferLateDifferStill(t *testing.T) {
	seen := map[string]string{}
	for length := 249; length <= 253; length++ {
		for _, last := range []string{"a", "b", "c", "0", "1"} {
			node := strings.Repeat("n", length-1) + last
			name := store.Name(node)
			assert.Empty(t, seen[name], "%q and %q share a name", node, seen[name])
			seen[name] = node
		}
	}
	assert.Len(t, seen, 25)
}

func FuzzName(f *testing.F) {
	for _, node := range []string{
		"", "worker-1", "a.b", strings.Repeat("a", 248), strings.Repeat("a", 249), strings.Repeat("a.", 126) + "a", "a" + strings.Repeat("-", 251) + "a",
		strings.Repeat(".", 300), strings.Repeat("ö", 200),
	} {
		f.Add(node)
	}
	f.Fuzz(func(t *testing.T, node string) {
		name := store.Name(node)
		assert.Equal(t, name, store.Name(strings.Clone(node)), "the same Node, the same name")
		assert.LessOrEqual(t, len(name), validation.DNS1123SubdomainMaxLength)
		assert.True(t, strings.HasPrefix(name, "node"))
		if len(validation.IsDNS1123Subdomain(node)) == 0 {
			assert.Empty(t, validation.IsDNS1123Subdomain(name))
		}
		if len(node) <= 248 {
			assert.Equal(t, "node."+node, name)
		}
	})
}
