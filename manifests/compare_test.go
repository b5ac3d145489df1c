package manifests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// What follows from differences, and the whole manifests, are tested in cli/doctor.
func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		shipped, found string
		comparison     Comparison
		want           []string
	}{
		"another value":             {`{spec: {a: 1}}`, `{spec: {a: 2}}`, Comparison{}, []string{"spec.a is 2, and nodekeep ships 1"}},
		"no value":                  {`{spec: {a: x}}`, `{spec: {}}`, Comparison{}, []string{"spec.a is not set, and nodekeep ships x"}},
		"a value that is not ours":  {`{spec: {}}`, `{spec: {a: x}}`, Comparison{}, []string{"spec.a is x, and nodekeep does not set it"}},
		"which may be set":          {`{spec: {}}`, `{spec: {a: x}}`, Comparison{Partial: true}, nil},
		"defaults":                  {`{}`, `{matchPolicy: Equivalent, reinvocationPolicy: Never, objectSelector: {}, list: []}`, Comparison{}, nil},
		"an ignored field":          {`{spec: {a: 1}}`, `{spec: {a: 2}}`, Comparison{Ignored: sets.New("a")}, nil},
		"identity":                  {`{kind: A, metadata: {name: a}}`, `{kind: B, metadata: {name: b}, status: {}}`, Comparison{}, nil},
		"identity of what is bound": {`{roleRef: {kind: Role}}`, `{roleRef: {kind: ClusterRole}}`, Comparison{}, []string{"roleRef.kind is ClusterRole, and nodekeep ships Role"}},
		"another name":              {`{a: x-gate}`, `{a: x-door}`, Comparison{Replace: strings.NewReplacer("gate", "door")}, nil},
		"a list of objects":         {`{l: [{a: 1}, {a: 2}]}`, `{l: [{a: 1}, {a: 3}]}`, Comparison{}, []string{"l[1].a is 3, and nodekeep ships 2"}},
		"a shorter list":            {`{l: [{a: 1}, {a: 2}]}`, `{l: [{a: 1}]}`, Comparison{}, []string{`l is [{"a":1}], and nodekeep ships [{"a":1},{"a":2}]`}},
		"named elements":            {`{webhooks: [{name: a, x: 1}, {name: b}, {name: c}]}`, `{webhooks: [1, {name: other}, {name: a, x: 2}]}`, Comparison{Optional: "c"}, []string{"webhooks[a].x is 2, and nodekeep ships 1", `webhooks[b] is not set, and nodekeep ships {"name":"b"}`}},
		"variables":                 {`{env: [{name: a, value: x}, {name: b}]}`, `{env: [{name: more, value: "1"}, {name: a, value: z}]}`, Comparison{}, []string{"env[a].value is z, and nodekeep ships x", `env[b] is not set, and nodekeep ships {"name":"b"}`}},
		"more variables":            {`{env: [{name: a, value: x}]}`, `{env: [{name: a, value: x}, {name: more, value: "1"}]}`, Comparison{}, nil},
		"flags":                     {`{args: [--namespace=a, --x=1]}`, `{args: [--namespace=a, --namespace=b, --x=2]}`, Comparison{}, []string{"args[--namespace] is --namespace=b, and nodekeep ships --namespace=a"}},
		"more actions":              {`{validationActions: [Deny]}`, `{validationActions: [Audit, Deny]}`, Comparison{}, nil},
		"other actions":             {`{validationActions: [Deny]}`, `{validationActions: [Audit]}`, Comparison{}, []string{`validationActions is ["Audit"], and nodekeep ships ["Deny"]`}},
		"a URL for a Service":       {`{clientConfig: {service: {path: /a}}}`, `{clientConfig: {url: "https://b/a"}}`, Comparison{}, nil},
		"another path of a URL":     {`{clientConfig: {service: {path: /a}}}`, `{clientConfig: {url: "https://b/c"}}`, Comparison{}, []string{"clientConfig.url is https://b/c, and nodekeep ships https://b/a"}},
		"another kind of value":     {`{a: {b: 1}}`, `{a: [1]}`, Comparison{}, []string{`a is [1], and nodekeep ships {"b":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var shipped, found map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(c.shipped), &shipped))
			require.NoError(t, yaml.Unmarshal([]byte(c.found), &found))
			var got []string
			for _, difference := range c.comparison.Differences(shipped, found) {
				got = append(got, difference.String())
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestOnlyTheObjectsThatAreWantedAreReadForTheirNamespace(t *testing.T) {
	objects, err := Objects("elsewhere", func(name string) bool { return name == "deployment/nodekeep-webhook" })
	require.NoError(t, err)
	require.Len(t, objects, 1)
	assert.Equal(t, "deployment/nodekeep-webhook", Name(objects[0]))
	assert.Equal(t, "elsewhere", objects[0].GetNamespace())
}
