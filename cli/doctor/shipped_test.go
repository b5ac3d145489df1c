package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/manifests"
)

// parsed are the objects that the tests read, by file: YAML is slow to read.
var parsed = map[string][]Object{}

// inCluster returns the objects that checks compare, as an installation of the static file has them: as the API server completes them.
func inCluster(t *testing.T, files ...string) (objects []Object) {
	t.Helper()
	key := strings.Join(files, " ")
	if _, ok := parsed[key]; !ok {
		shipped, err := Shipped(namespace)
		require.NoError(t, err)
		parsed[key] = fromFiles(t, shipped, files...)
	}
	for _, object := range parsed[key] {
		object.Live.Value = object.Live.Value.DeepCopy()
		objects = append(objects, object)
	}
	return objects
}

// policyIn returns the NodePolicy of a static file.
func policyIn(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "manifests", file))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		if strings.Contains(document, "\nkind: NodePolicy\n") {
			return document
		}
	}
	require.Fail(t, "there is no NodePolicy in "+file)
	return ""
}

// fromFiles returns objects as static files have them.
func fromFiles(t *testing.T, objects []Object, files ...string) []Object {
	t.Helper()
	for i := range objects {
		objects[i].Live = Absent[*unstructured.Unstructured]()
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join("..", "..", "manifests", file))
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			if !strings.Contains(document, "\nkind: ") { // only comments
				continue
			}
			found := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(document), found))
			complete(found.Object)
			for i, object := range objects {
				if object.Name() == manifests.Name(*found) && object.Shipped.GetNamespace() == found.GetNamespace() {
					objects[i].Live = Found(found)
				}
			}
		}
	}
	return objects
}

// complete sets what an API server sets where an object of admission says nothing.
func complete(object map[string]any) {
	for _, entry := range mapsIn(object, "webhooks") {
		entry["matchPolicy"], entry["namespaceSelector"], entry["objectSelector"] = "Equivalent", map[string]any{}, map[string]any{}
		if _, set := entry["reinvocationPolicy"]; !set && object["kind"] == "MutatingWebhookConfiguration" {
			entry["reinvocationPolicy"] = "Never"
		}
	}
	if object["kind"] == "CustomResourceDefinition" {
		object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "None"}
	}
	if constraints, ok, _ := unstructured.NestedFieldNoCopy(object, "spec", "matchConstraints"); ok {
		entry := constraints.(map[string]any)
		entry["matchPolicy"], entry["namespaceSelector"], entry["objectSelector"] = "Equivalent", map[string]any{}, map[string]any{}
	}
}

// remove makes objects absent.
func (s *Installation) remove(names ...string) {
	for i := range s.ComparedObjects {
		if slices.Contains(names, s.ComparedObjects[i].Name()) {
			s.ComparedObjects[i].Live = Absent[*unstructured.Unstructured]()
		}
	}
}

// edit changes an object that the cluster has.
func edit[T any](s *Installation, name string, change func(*T)) {
	typed := decode[T](*s, name).Value
	change(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(err)
	}
	for i := range s.ComparedObjects {
		if s.ComparedObjects[i].Name() == name {
			s.ComparedObjects[i].Live.Value.Object = content
		}
	}
}

// patch changes an object that the cluster has by a JSON patch.
func (s *Installation) patch(t *testing.T, name, operations string) {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch([]byte(operations))
	require.NoError(t, err)
	object := s.object(name).Live.Value
	content, err := object.MarshalJSON()
	require.NoError(t, err)
	content, err = decoded.Apply(content)
	require.NoError(t, err, "%s %s", name, operations)
	require.NoError(t, object.UnmarshalJSON(content))
}

// arg gives a process one more flag.
func (s *Installation) arg(name, arg string) {
	edit(s, name, func(d *appsv1.Deployment) {
		container := &d.Spec.Template.Spec.Containers[0]
		container.Args = append(container.Args, arg)
	})
}

// setPolicy makes the NodePolicy what a manifest says.
func (s *Installation) setPolicy(manifest string) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		panic(err)
	}
	s.Policy = Found(object)
}

// accepts adds to what is noted of what is in force and was accepted.
func (s *Installation) accepts(data map[string]string) {
	if !s.AcceptedConfigMap.Found {
		s.AcceptedConfigMap = Found(&corev1.ConfigMap{Data: map[string]string{}})
	}
	maps.Copy(s.AcceptedConfigMap.Value.Data, data)
}

// inJSON returns a manifest in JSON.
func inJSON(t *testing.T, manifest string) string {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(manifest))
	require.NoError(t, err)
	return string(content)
}

// client changes how the API server calls the webhooks of a configuration.
func (s *Installation) client(object string, change func(*admissionregistrationv1.WebhookClientConfig)) {
	if object == mutatingObject {
		edit(s, object, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			for i := range c.Webhooks {
				change(&c.Webhooks[i].ClientConfig)
			}
		})
		return
	}
	edit(s, object, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			change(&c.Webhooks[i].ClientConfig)
		}
	})
}

// bundle sets the caBundle of configurations; of both if none is named.
func (s *Installation) bundle(pem []byte, objects ...string) {
	if len(objects) == 0 {
		objects = []string{mutatingObject, validatingObject}
	}
	for _, object := range objects {
		s.client(object, func(c *admissionregistrationv1.WebhookClientConfig) { c.CABundle = pem })
	}
}

// byURL lets the API server call the webhooks by a URL.
func (s *Installation) byURL() {
	for _, object := range []string{mutatingObject, validatingObject} {
		s.client(object, func(c *admissionregistrationv1.WebhookClientConfig) {
			c.URL = ptr.To("https://nodekeep-webhook.nodekeep-system.svc:9443" + *c.Service.Path)
			c.Service = nil
		})
	}
}
