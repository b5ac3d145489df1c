package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const definition = `---
kind: CustomResourceDefinition
spec:
  versions:
  - schema:
      openAPIV3Schema:
        properties:
          spec:
            type: object
            properties:
              hold: {type: string, pattern: "^([0-9]+(h|m|s|ms))+$", description: "How long, < 1h or *."}
              mode: {type: string, enum: [audit, deny], description: "What\nhappens."}
              checks:
                type: array
                description: What is asked.
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, description: The name.}
                    api: {type: object}
                    most: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                  x-kubernetes-validations:
                  - {rule: "(has(self.api)?1:0)+(has(self.most)?1:0) == 1", message: one}
              set: {type: object, additionalProperties: {type: string}}
`

const values = `{
  "properties": {
    "image": {"type": "object"},
    "policy": {
      "type": "object"
    },
    "rules": {}
  }
}
`

func generate(t *testing.T, page string) (map[string][]byte, error) {
	t.Helper()
	return generated([]byte(definition), func(name string) ([]byte, error) {
		return map[string][]byte{valuesFile: []byte(values), pageFile: []byte(page), causesFile: []byte(page)}[name], nil
	})
}

const page = "# The policy\n\n" + tableBegins + "old\n" + tableEnds + "\nafter\n"

func TestTheValueOfTheChartHasTheSchemaOfTheSpecAsJSONSchema(t *testing.T) {
	files, err := generate(t, page)
	require.NoError(t, err)
	var got struct{ Properties map[string]any }
	require.NoError(t, json.Unmarshal(files[valuesFile], &got))
	var want any
	require.NoError(t, yaml.Unmarshal([]byte(`
type: [object, "null"]
additionalProperties: false
properties:
  hold: {type: [string, "null"], pattern: "^([0-9]+(h|m|s|ms))+$", description: "How long, < 1h or *."}
  mode: {type: string, enum: [audit, deny], description: "What\nhappens."}
  checks:
    type: [array, "null"]
    description: What is asked.
    items:
      type: object
      required: [name]
      additionalProperties: false
      properties:
        name: {type: string, description: The name.}
        api: {type: [object, "null"], additionalProperties: false}
        most: {type: [integer, string, "null"]}
      oneOf: [{required: [api]}, {required: [most]}]
  set: {type: [object, "null"], additionalProperties: {type: string}}
`), &want))
	assert.Equal(t, want, got.Properties["policy"])
	assert.Equal(t, map[string]any{"type": "object"}, got.Properties["image"], "what is around it stays")
	assert.Contains(t, got.Properties, "rules")
}

// Server-side apply writes null for a map from which it removes the last field.
func TestAnOptionalFieldMayBeNullAndARequiredOneMayNot(t *testing.T) {
	files, err := generate(t, page)
	require.NoError(t, err)
	spec, err := specOf(files[crdFile])
	require.NoError(t, err)
	assert.Equal(t, true, spec["nullable"])
	fields := spec["properties"].(schema)
	assert.NotContains(t, fields["mode"], "nullable", "the API server takes no null among the values of a list")
	check := fields["checks"].(schema)["items"].(schema)
	assert.NotContains(t, check, "nullable", "an entry of a list")
	assert.NotContains(t, check["properties"].(schema)["name"], "nullable")
	assert.Equal(t, true, check["properties"].(schema)["api"].(schema)["nullable"])
}

func TestThePageHasARowForEachField(t *testing.T) {
	files, err := generate(t, page)
	require.NoError(t, err)
	assert.Equal(t, "# The policy\n\n"+tableBegins+`
| Field | Type | Meaning |
|---|---|---|
| `+"`checks`"+` | list of objects | What is asked. |
| `+"`checks[].api`"+` | object |  |
| `+"`checks[].most`"+` | integer or string |  |
| `+"`checks[].name`"+` | string | The name. Required. |
| `+"`hold`"+` | duration | How long, \< 1h or \*. |
| `+"`mode` | `audit`, `deny`"+` | What happens. |
| `+"`set`"+` | map of strings |  |

`+tableEnds+"\nafter\n", string(files[pageFile]))
}

func TestWhatIsGeneratedIsGeneratedAgainTheSameWay(t *testing.T) {
	once, err := generate(t, page)
	require.NoError(t, err)
	again, err := generated([]byte(definition), func(name string) ([]byte, error) { return once[name], nil })
	require.NoError(t, err)
	assert.Equal(t, once, again)
}

func TestAFileWithoutAPlaceForWhatIsGeneratedIsAnError(t *testing.T) {
	_, err := generate(t, "# The policy\n")
	require.EqualError(t, err, "docs/policy.md: lacks the marks around its table")
	_, err = generated([]byte(definition), func(name string) ([]byte, error) {
		return map[string][]byte{valuesFile: []byte("{}"), pageFile: []byte(page), causesFile: []byte(page)}[name], nil
	})
	require.EqualError(t, err, "manifests/chart/values.schema.json: has no property policy")
	unread := errors.New("cannot be read")
	_, err = generated([]byte(definition), func(string) ([]byte, error) { return nil, unread })
	require.ErrorIs(t, err, unread)
	_, err = generated([]byte("spec: {versions: []}"), nil)
	require.EqualError(t, err, "controller-gen made 0 versions, and one is expected")
}
