package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
)

// retaining returns the manifest of a policy with a retention.
func retaining(duration string) string { return policytest.Manifest("retention: " + duration) }

// clusterWith has this NodePolicy, none where it is empty, and these ConfigMaps in its namespace.
func clusterWith(t *testing.T, manifest string, configMaps map[string]map[string]string) (*session, *dynamicfake.FakeDynamicClient, *bytes.Buffer) {
	t.Helper()
	var objects, policies []runtime.Object
	for name, data := range configMaps {
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: DefaultNamespace}, Data: data})
	}
	if manifest != "" {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object))
		policies = append(policies, object)
	}
	kinds := map[schema.GroupVersionResource]string{nodepolicy.Resource(): "NodePolicyList"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, policies...)
	out := &bytes.Buffer{}
	return &session{
		Cluster:   &cluster.Cluster{Config: &rest.Config{Host: "fake"}, Namespace: DefaultNamespace, Client: fake.NewClientset(objects...), Dynamic: client},
		IOStreams: genericiooptions.IOStreams{ErrOut: out},
	}, client, out
}

func TestACommandGoesByTheNodePolicyElseByWhatWasAcceptedLast(t *testing.T) {
	gate := map[string]string{"gate-key": "example.com/gate"}
	accepted := map[string]string{store.AcceptedPolicy: inJSON(t, retaining("2h")), store.AcceptedBefore: inJSON(t, retaining("3h"))}
	const (
		key       = " (key policy.json of ConfigMap nodekeep-accepted)"
		last      = "what was accepted last stays in force" + key
		byDefault = "none was accepted before, so the default policy is in force"
		unknown   = "The gate's key is not known, since namespace nodekeep-system has no ConfigMap nodekeep-gate. nodekeep.dev/restoring is taken; --gate-key names another.\n"
		absent    = "Namespace nodekeep-system has no ConfigMap nodekeep-gate, so nodekeep is not installed there. If nodekeep is in another namespace, name it with -n.\n"
	)
	for name, c := range map[string]struct {
		manifest   string
		configMaps map[string]map[string]string
		served     bool
		retention  string
		from       string
		output     string
	}{
		"there is one": {
			retaining("1h"), map[string]map[string]string{gateObjectName: gate, store.AcceptedConfigMap: accepted}, true,
			"1h0m0s", "the policy of the cluster (NodePolicy default)", "",
		},
		"there is none": {
			"", map[string]map[string]string{gateObjectName: gate, store.AcceptedConfigMap: accepted}, true,
			"2h0m0s", last, "there is no NodePolicy default: " + last + ".\n",
		},
		"it cannot be used": {
			policytest.Manifest("retention: 5s\ncordon: no"), map[string]map[string]string{gateObjectName: gate, store.AcceptedConfigMap: accepted}, true,
			"2h0m0s", last, "NodePolicy default cannot be used: spec.cordon: Invalid value: \"false\": must be a string; put it in quotes (and 1 more error, which nodekeep check names): " + last + ".\n",
		},
		"the API server knows none": {
			"", map[string]map[string]string{gateObjectName: gate, store.AcceptedConfigMap: accepted}, false,
			"2h0m0s", last, "this cluster has no CustomResourceDefinition nodepolicies.nodekeep.dev: " + last + ".\n",
		},
		"there is none, and none was accepted": {
			"", map[string]map[string]string{gateObjectName: gate}, true, "720h0m0s", "the default policy, since there is no NodePolicy default", "",
		},
		"it cannot be used, and none was accepted": {
			retaining("5s"), map[string]map[string]string{gateObjectName: gate}, true, "720h0m0s", byDefault, ": " + byDefault + ".\n",
		},
		"nodekeep is not installed": {
			"", nil, false, "720h0m0s", "the default policy, since nodekeep is not installed",
			unknown + "This cluster has no CustomResourceDefinition nodepolicies.nodekeep.dev, and namespace nodekeep-system has no ConfigMap nodekeep-gate, so nodekeep is not installed. The default policy is taken. If nodekeep is in another namespace, name it with -n.\n",
		},
		"nodekeep is in another namespace": {retaining("1h"), nil, true, "1h0m0s", "the policy of the cluster (NodePolicy default)", unknown + absent},
	} {
		t.Run(name, func(t *testing.T) {
			opened, client, out := clusterWith(t, c.manifest, c.configMaps)
			if !c.served {
				client.PrependReactor("get", "nodepolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewGenericServerResponse(404, "get", nodepolicy.Resource().GroupResource(), "default", "404 page not found", 0, true)
				})
			}
			source := policySource{}
			p, err := source.read(t.Context(), opened)
			require.NoError(t, err)
			assert.Equal(t, c.retention, p.Retention().String())
			assert.Equal(t, c.from, source.source)
			if c.output == "" {
				assert.Empty(t, out.String())
			} else {
				assert.Contains(t, out.String(), c.output)
			}
			if c.configMaps != nil {
				assert.EqualValues(t, "example.com/gate", p.Gate())
			}
		})
	}
}

func TestThePolicyOfAFileAndTheGateOfAFlagAskNoCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(retaining("4h")), 0o600))
	for name, c := range map[string]*session{"a cluster without clients": {}, "no cluster": nil} {
		source := policySource{file: file, gateKey: "example.com/other"}
		p, err := source.read(t.Context(), c)
		require.NoError(t, err, name)
		assert.Equal(t, "4h0m0s", p.Retention().String())
		assert.EqualValues(t, "example.com/other", p.Gate())
		assert.Equal(t, file, source.source)
	}
}

func TestADenialToReadTheNodePolicyNamesTheRight(t *testing.T) {
	c, client, _ := clusterWith(t, "", nil)
	client.PrependReactor("get", "nodepolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(nodepolicy.Resource().GroupResource(), "default",
			errors.New(`User "jane" cannot get resource "nodepolicies" in API group "nodekeep.dev" at the cluster scope`))
	})
	_, err := (&policySource{}).read(t.Context(), c)
	require.ErrorContains(t, err, "you may not get nodepolicies.nodekeep.dev in the whole cluster")
}

func TestANodePolicyThatTheAPIServerCannotDecodeStopsNoCommandIfOneWasAcceptedBefore(t *testing.T) {
	spoiled := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("unable to decode: " + strings.Repeat("a\n", 1000)))
	}
	c, client, out := clusterWith(t, "", map[string]map[string]string{gateObjectName: {}, store.AcceptedConfigMap: {store.AcceptedPolicy: inJSON(t, retaining("2h"))}})
	client.PrependReactor("get", "nodepolicies", spoiled)
	p, err := (&policySource{}).read(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "2h0m0s", p.Retention().String())
	assert.Regexp(t, `^NodePolicy default cannot be read: .* a\.\.\.: what was accepted last stays in force \(.*\)\.\n$`, out.String(), "one line, of bounded length")
	assert.Less(t, out.Len(), 600)

	c, client, _ = clusterWith(t, "", map[string]map[string]string{gateObjectName: {}})
	client.PrependReactor("get", "nodepolicies", spoiled)
	_, err = (&policySource{}).read(t.Context(), c)
	require.ErrorContains(t, err, "unable to decode", "it may be any policy, so the default must not stand for it")
}

func TestTheErrorsOfAHugeNodePolicyAreOneSentence(t *testing.T) {
	patterns := strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x y\\n", 200)+`",`, 500), ",")
	c, _, out := clusterWith(t, policytest.Manifest("labels: {keep: ["+patterns+"]}"), map[string]map[string]string{gateObjectName: {}})
	_, err := (&policySource{}).read(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
	assert.Contains(t, out.String(), "(and 499 more errors, which nodekeep check names): none was accepted before")
	assert.Less(t, out.Len(), 600)
}

// inJSON returns a manifest in JSON.
func inJSON(t *testing.T, manifest string) string {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(manifest))
	require.NoError(t, err)
	return string(content)
}

func TestACommandThatKnowsTheGateAloneSaysWhichKeyItTakes(t *testing.T) {
	for name, c := range map[string]struct {
		source policySource
		maps   map[string]map[string]string
		want   policy.Gate
		output string
	}{
		"that of the cluster": {maps: map[string]map[string]string{gateObjectName: {"gate-key": "example.com/gate"}}, want: "example.com/gate"},
		"that of the flag":    {source: policySource{gateKey: "example.com/flag"}, want: "example.com/flag"},
		"the default one":     {want: policy.DefaultGate, output: "The gate's key is not known, since namespace nodekeep-system has no ConfigMap nodekeep-gate. nodekeep.dev/restoring is taken; --gate-key names another.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			opened, _, out := clusterWith(t, "", c.maps)
			gate, err := c.source.gate(t.Context(), opened)
			require.NoError(t, err)
			assert.Equal(t, c.want, gate)
			assert.Equal(t, c.output, out.String())
		})
	}
}
