package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestAZeroIsZeroOrAnErrorOfItsFieldAndNeverTheDefault(t *testing.T) {
	profile := func(section string) string {
		return "verify: {profiles: [{name: a, checks: [{name: c, " + section + "}]}]}\n"
	}
	numbers := map[string]struct {
		section string
		valid   bool
	}{
		"spec.verify.limits.deletionsPerHour":                 {"verify: {limits: {deletionsPerHour: 0}}\n", true},
		"spec.verify.limits.stopAbove":                        {"verify: {limits: {stopAbove: 0}}\n", true},
		"spec.verify.profiles[0].attempts.max":                {"verify: {profiles: [{name: a, attempts: {max: 0}, checks: [{name: c, api: {}}]}]}\n", false},
		"spec.verify.profiles[0].checks[0].http.status":       {profile("http: {url: 'https://example.com', status: 0}"), false},
		"spec.verify.profiles[0].checks[0].service.port":      {profile("service: {name: a/b, port: 0}"), false},
		"spec.verify.profiles[0].checks[0].service.endpoints": {profile("service: {name: a/b, port: 1, endpoints: 0}"), true},
		"spec.labels.rules[0].when.any[0].devices.min":        {"labels: {rules: [{name: a, when: {any: [{devices: {driver: d, min: 0}}]}, set: {example.com/a: b}}]}\n", false},
		"spec.labels.rules[0].when.devices.min":               {"labels: {rules: [{name: a, when: {devices: {driver: d, min: 0}}, set: {example.com/a: b}}]}\n", false},
	}
	var walked []string
	for _, path := range numberPaths("spec", reflect.TypeFor[Spec](), nil) {
		c, known := numbers[path]
		if !assert.True(t, known, "%s takes a number: say here what 0 is", path) {
			continue
		}
		walked = append(walked, path)
		p, err := Load([]byte(policytest.Manifest(c.section)), DefaultGate)
		if !c.valid {
			require.ErrorContains(t, err, path)
			continue
		}
		require.NoError(t, err)
		field := strings.NewReplacer("spec.", "", "profiles[0]", "profiles[a]", "checks[0]", "checks[c]").Replace(path)
		i := slices.IndexFunc(p.Content(), func(line Line) bool { return line.Field == field })
		if assert.GreaterOrEqual(t, i, 0, field) {
			assert.Equal(t, "0", p.Content()[i].Value, field)
		}
	}
	assert.Len(t, walked, len(numbers))
}

// numberPaths returns the fields of a type that take a number. Each type is entered once.
func numberPaths(path string, typ reflect.Type, recent []reflect.Type) (paths []string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ.Kind() == reflect.Int || typ == reflect.TypeFor[intstr.IntOrString]():
		return []string{path}
	case typ.Kind() == reflect.Slice:
		return numberPaths(path+"[0]", typ.Elem(), recent)
	case typ.Kind() != reflect.Struct || slices.Contains(recent, typ):
		return nil
	}
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && f.IsExported() {
			paths = append(paths, numberPaths(path+"."+name, f.Type, append(slices.Clone(recent), typ))...)
		}
	}
	return paths
}
