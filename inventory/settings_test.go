package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The policy could have capture send its own token to any server.
func TestAPolicyCanNameNoFileOutsideOfTheMounts(t *testing.T) {
	for file, allowed := range map[string]bool{
		"/var/run/nodekeep/cmdb/token":                             true,
		"/var/run/secrets/kubernetes.io/serviceaccount/token":      false,
		"/var/run/nodekeep/../secrets/kubernetes.io/token":         false,
		"/var/run/nodekeep/cmdb/../../secrets/kubernetes.io/token": false,
		"/var/run/nodekeep/./cmdb/token":                           false,
		"/var/run/nodekeep//cmdb/token":                            false,
		"/var/run/nodekeep":                                        false,
		"/var/run/nodekeep/":                                       false,
		"/var/run/nodekeep-other/token":                            false,
		"var/run/nodekeep/cmdb/token":                              false,
		"cmdb/token":                                               false,
		"/":                                                        false,
	} {
		for name, entry := range map[string]Entry{
			"auth.tokenFile": {Name: "a", URL: "https://a", Auth: Auth{TokenFile: file}, Attributes: []string{"rack"}},
			"ca":             {Name: "a", URL: "https://a", CA: file, Attributes: []string{"rack"}},
			"file":           {Name: "a", File: file, Attributes: []string{"rack"}},
		} {
			_, errs := Compile([]Entry{entry}, field.NewPath("inventory"))
			assert.Equal(t, allowed, len(errs) == 0, "%s: %s: %v", name, file, errs)
			for _, err := range errs {
				assert.Equal(t, "inventory[0]."+name, err.Field)
			}
		}
	}
}

// Each of eight sources could fill memory of its own, and together they had capture killed.
func TestTheSnapshotsOfAllSourcesShareOneBudget(t *testing.T) {
	for sources, want := range map[int]int{1: MaxKept, 2: MaxKept, 4: 24 << 20, 8: 12 << 20} {
		var entries []Entry
		for i := range sources {
			entries = append(entries, Entry{Name: fmt.Sprint("s", i), URL: "https://a", Attributes: []string{"rack"}})
		}
		compiled, errs := Compile(entries, nil)
		assert.Empty(t, errs)
		all := 0
		for _, source := range compiled {
			assert.Equal(t, want, source.Kept, "%d sources", sources)
			all += states * source.Kept
		}
		assert.LessOrEqual(t, all, budget)
	}

	listing := func(nodes int) *json.Decoder {
		var text strings.Builder
		text.WriteString(`{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[`)
		for i := range nodes {
			if i > 0 {
				text.WriteString(",")
			}
			fmt.Fprintf(&text, `{"name":"worker-%06d","systemUUID":"%036x","attributes":{"rack":"r%06d"}}`, i, i, i)
		}
		text.WriteString("]}")
		return json.NewDecoder(strings.NewReader(text.String()))
	}
	source := Source{Name: "cmdb", Attributes: []string{"rack"}, Kept: keptOf(8)}
	_, err := Decode(listing(60_000), source)
	require.NoError(t, err)
	_, err = Decode(listing(120_000), source)
	require.ErrorIs(t, err, ErrKeepsTooMuch)
	assert.Equal(t, "what is kept of it takes more than 12 MiB: list fewer attributes or Nodes, or have fewer sources", err.Error())
	source.Kept = keptOf(4)
	_, err = Decode(listing(100_000), source)
	require.NoError(t, err, "as docs/rules.md says")
}
