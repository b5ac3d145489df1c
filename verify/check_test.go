package verify_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/verify"
)

// recorder is a worker that only notes what it is asked.
type recorder map[string]any

func (r recorder) DNS(asked *verify.DNS) error         { r["dns"] = asked; return nil }
func (r recorder) API(asked *verify.API) error         { r["api"] = asked; return nil }
func (r recorder) Service(asked *verify.Service) error { r["service"] = asked; return nil }
func (r recorder) TCP(asked *verify.TCP) error         { r["tcp"] = asked; return nil }
func (r recorder) HTTP(asked *verify.HTTP) error       { r["http"] = asked; return nil }

// schemaOfACheck returns that of the CustomResourceDefinition.
func schemaOfACheck(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../manifests/chart/crd.yaml")
	require.NoError(t, err)
	var definition struct {
		Spec struct {
			Versions []struct{ Schema map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &definition))
	require.Len(t, definition.Spec.Versions, 1)
	schema := definition.Spec.Versions[0].Schema
	for name := range strings.SplitSeq("openAPIV3Schema properties spec properties verify properties profiles items properties checks items", " ") {
		require.Contains(t, schema, name)
		schema = schema[name].(map[string]any)
	}
	return schema
}

// Of the parts of a kind, the compiler finds those that are methods. The others are found here.
func TestEachKindOfCheckHasAllItsParts(t *testing.T) {
	docs, err := os.ReadFile("../docs/verification.md")
	require.NoError(t, err)
	lines := sets.New(strings.Split(string(docs), "\n")...)
	schema := schemaOfACheck(t)
	rule := schema["x-kubernetes-validations"].([]any)[0].(map[string]any)["rule"].(string)
	var counted []string
	for _, match := range regexp.MustCompile(`has\(self\.(\w+)\)`).FindAllStringSubmatch(rule, -1) {
		counted = append(counted, match[1])
	}

	var fields []string
	check := reflect.TypeFor[verify.Check]()
	for i := range check.NumField() {
		if typ := check.Field(i).Type; typ.Kind() != reflect.Pointer || typ.Elem().Kind() == reflect.Bool { // required
			continue
		}
		name, _, _ := strings.Cut(check.Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
		t.Run(name, func(t *testing.T) {
			single := verify.Check{Name: "a"}
			asked := reflect.New(check.Field(i).Type.Elem())
			reflect.ValueOf(&single).Elem().Field(i).Set(asked)
			assert.Equal(t, name, single.Kind(), "the method slots has the field")
			assert.FileExists(t, name+".go")
			if !single.ByWorker() {
				profile := verify.CompiledProfile{Profile: verify.Profile{Checks: []verify.Check{single}}, Timeout: time.Minute}
				judged := verify.Judge(verify.Pod{
					Created: born, Phase: corev1.PodSucceeded, Log: verify.Log{Asked: true},
					Containers: []verify.ContainerState{{Name: verify.Worker, Ended: true, Message: `{"results":[]}`}, {Name: single.Name, Ended: true}},
				}, profile, born)
				require.Len(t, judged.Results, 1, "%+v", judged)
				assert.Equal(t, single.Name, judged.Results[0].Check)
				return
			}
			worker := recorder{}
			require.NoError(t, single.Ask(worker))
			assert.Equal(t, recorder{name: asked.Interface()}, worker, "its own method is called, and no other")
			assert.FileExists(t, "../check/"+name+".go")
		})
		property, _ := schema["properties"].(map[string]any)[name].(map[string]any)
		assert.NotEmpty(t, property["description"], "the schema explains %s", name)
	}

	var kinds []string
	for _, kind := range verify.Kinds() {
		kinds = append(kinds, kind.Name)
		assert.NotEmpty(t, kind.Passes, kind.Name)
		assert.NotEmpty(t, kind.Notes, kind.Name)
		row := "| `" + kind.Name + "` | " + kind.Passes + " | " + kind.Notes + " |"
		assert.True(t, lines.Has(row), "docs/verification.md lacks the line %q: run make manifests", row)
	}
	assert.Equal(t, fields, kinds, "the method slots has all fields")
	assert.Equal(t, kinds, counted, "the schema wants one of them: run make manifests")
}

func TestACheckWithoutAKindIsAskedAndFails(t *testing.T) {
	assert.True(t, verify.Check{}.ByWorker())
	assert.Empty(t, verify.Check{}.Kind())
	assert.Empty(t, verify.Check{}.Needs())
	require.ErrorContains(t, verify.Check{}.Ask(recorder{}), "does not know")
}
