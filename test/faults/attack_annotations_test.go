package faults

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const (
	ownPrefix    = "nodekeep.dev/"
	guardMessage = "kubelets cannot add, change or remove annotations under nodekeep.dev/"
	guardsSeries = "nodekeep_guard_policies_in_force"
)

// withoutGuards does something while the guard policies do not exist and both processes know it.
func withoutGuards(t testing.TB, fn func()) {
	t.Helper()
	require.NoError(t, nodekeep.WithoutGuards(t.Context(), func() {
		guardsSeen(t, 0)
		fn()
	}))
	guardsSeen(t, 1)
}

// guardsSeen waits until both processes report whether the guard policies are in force.
func guardsSeen(t testing.TB, inForce float64) {
	t.Helper()
	harness.Eventually(t, func() bool {
		return captureSeries(t, guardsSeries) == inForce &&
			webhookSeries(t, "nodekeep_guard_policies_in_force") == inForce
	}, 4*harness.Settles, 100*time.Millisecond, "both processes must report %v", inForce)
}

// ownAnnotations returns those of a Node that only nodekeep may write.
func ownAnnotations(node *corev1.Node) map[string]string {
	annotations := map[string]string{}
	for key, value := range node.Annotations {
		if strings.HasPrefix(key, ownPrefix) {
			annotations[key] = value
		}
	}
	return annotations
}

// clientFor returns a client for a config, in JSON or protobuf.
func clientFor(t testing.TB, config *rest.Config, contentType string) *kubernetes.Clientset {
	t.Helper()
	config.ContentType = contentType
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// claiming returns an administrator who takes a name and groups; system:masters, so that nothing but a policy can deny it anything.
func claiming(user string, groups ...string) *rest.Config {
	config := nodekeep.Cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:masters")}
	return config
}

const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf"
)

// applied returns what a server-side apply of a kubelet sends.
func applied(t testing.TB, name string, annotations map[string]string) []byte {
	t.Helper()
	return harness.MustJSON(t, map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "annotations": annotations}})
}

// manyLabels returns so many annotations, each as small as can be.
func manyLabels(n int) map[string]string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	annotations := map[string]string{}
	for _, a := range letters {
		for _, b := range letters {
			for _, c := range letters {
				if len(annotations) == n {
					return annotations
				}
				annotations[string([]rune{a, b, c})] = ""
			}
		}
	}
	return annotations
}

func TestNoKubeletCanChangeNodekeepsAnnotationsOnItsNode(t *testing.T) {
	const name = "attack-update"
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	nodekeep.RegisterRecorded(t, name, protected)
	nodekeep.DeleteNode(t, name)
	createClaiming(t, name, nil)
	nodekeep.WaitRestored(t, name, protected)
	require.NoError(t, nodekeep.StopCapture()) // it would correct the list, since the Node has no such taint
	defer func() { require.NoError(t, nodekeep.StartCapture(t.Context())) }()
	nodekeep.MergeNode(t, name, map[string]any{"metadata": map[string]any{"annotations": map[string]string{policy.TaintsAnnotation: "a=b:NoSchedule", "example.com/mine": "1"}}})
	prev := ownAnnotations(nodekeep.Node(t, name))
	require.Len(t, prev, 2)

	nodes := nodekeep.Kubelet(t, name).CoreV1().Nodes()
	patch := func(kind types.PatchType, body string, subresources ...string) func() error {
		return func() error {
			_, err := nodes.Patch(t.Context(), name, kind, []byte(body), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	stamp, taints := "nodekeep.dev~1restored", "nodekeep.dev~1taints"
	ways := map[string]func() error{}
	for kind, subresources := range map[string][]string{"nodes": nil, "nodes/status": {"status"}} {
		for subject, way := range map[string]struct {
			kind types.PatchType
			body string
		}{
			"merge patch, changed":                        {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/restored":"{}"}}}`},
			"merge patch, emptied":                        {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/taints":""}}}`},
			"merge patch, removed":                        {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/restored":null}}}`},
			"merge patch, a check asked for":              {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/check-request":"now"}}}`},
			"merge patch, another one added":              {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/x.Y_z-1":"x"}}}`},
			"merge patch, annotations: null":              {types.MergePatchType, `{"metadata":{"annotations":null}}`},
			"merge patch, with managedFields emptied":     {types.MergePatchType, `{"metadata":{"managedFields":[{}],"annotations":{"nodekeep.dev/restored":"{}"}}}`},
			"merge patch, with a heartbeat":               {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/restored":"{}"}},"status":{"phase":"Running"}}`},
			"merge patch, the key with an escaped letter": {types.MergePatchType, `{"metadata":{"annotations":{"nodekeep.dev\/\u0072estored":"{}"}}}`},
			"JSON patch, replaced":                        {types.JSONPatchType, `[{"op":"replace","path":"/metadata/annotations/` + stamp + `","value":"{}"}]`},
			"JSON patch, added":                           {types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/nodekeep.dev~1new","value":"{}"}]`},
			"JSON patch, removed":                         {types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations/` + taints + `"}]`},
			"JSON patch, moved":                           {types.JSONPatchType, `[{"op":"move","from":"/metadata/annotations/` + stamp + `","path":"/metadata/annotations/x"}]`},
			"JSON patch, exchanged":                       {types.JSONPatchType, `[{"op":"copy","from":"/metadata/annotations/` + taints + `","path":"/metadata/annotations/` + stamp + `"}]`},
			"JSON patch, all removed":                     {types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations"}]`},
			"strategic patch, changed":                    {types.StrategicMergePatchType, `{"metadata":{"annotations":{"nodekeep.dev/restored":"{}"}}}`},
			"strategic patch, all replaced":               {types.StrategicMergePatchType, `{"metadata":{"annotations":{"$patch":"replace","a":"b"}}}`},
			"strategic patch, all deleted":                {types.StrategicMergePatchType, `{"metadata":{"annotations":{"$patch":"delete"}}}`},
			"strategic patch, annotations: null":          {types.StrategicMergePatchType, `{"metadata":{"annotations":null}}`},
		} {
			ways[kind+": "+subject] = patch(way.kind, way.body, subresources...)
		}
		ways[kind+": apply"] = func() error {
			yes := true
			_, err := nodes.Patch(t.Context(), name, types.ApplyPatchType, applied(t, name, map[string]string{policy.StampAnnotation: "{}"}),
				metav1.PatchOptions{FieldManager: "nodekeep", Force: &yes}, subresources...)
			return err
		}
		for format, change := range map[string]func(*corev1.Node){
			"PUT without annotations":     func(node *corev1.Node) { node.Annotations = nil },
			"PUT with a forged stamp":     func(node *corev1.Node) { node.Annotations = claims() },
			"PUT without resourceVersion": func(node *corev1.Node) { node.Annotations, node.ResourceVersion = claims(), "" },
			"PUT of 5,000 more and a lie": func(node *corev1.Node) { node.Annotations = manyLabels(5_000); maps.Copy(node.Annotations, claims()) },
			"PUT with no UTF-8":           func(node *corev1.Node) { node.Annotations[policy.StampAnnotation] = "{\xff}" },
		} {
			for _, contentType := range []string{asJSON, asProtobuf} {
				client := clientFor(t, nodekeep.Cluster.Kubelet(name), contentType).CoreV1().Nodes()
				ways[kind+": "+format+", "+contentType] = func() error {
					node := nodekeep.Node(t, name)
					change(node)
					var err error
					if len(subresources) > 0 {
						_, err = client.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
					} else {
						_, err = client.Update(t.Context(), node, metav1.UpdateOptions{})
					}
					return err
				}
			}
		}
	}
	for requester, config := range map[string]*rest.Config{
		"a kubelet's name without its group": claiming("system:node:" + name),
		"the group without a kubelet's name": claiming("client", "system:nodes"),
	} {
		client := clientFor(t, config, asJSON).CoreV1().Nodes()
		ways[requester] = func() error {
			_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"nodekeep.dev/restored":"{}"}}}`), metav1.PatchOptions{})
			return err
		}
	}
	for way, try := range ways {
		t.Run(way, func(t *testing.T) {
			err := try()
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, guardMessage)
			assert.Equal(t, prev, ownAnnotations(nodekeep.Node(t, name)))
		})
	}
	assert.Equal(t, prev, ownAnnotations(nodekeep.Node(t, name)))
	t.Run("an administrator may", func(t *testing.T) {
		nodekeep.MergeNode(t, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{policy.TaintsAnnotation: nil}}})
	})
}

func TestWhatAKubeletMayWritePassesTheGuardPolicies(t *testing.T) {
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	require.NoError(t, nodekeep.StopCapture())
	defer func() { require.NoError(t, nodekeep.StartCapture(t.Context())) }()
	patches := []struct {
		name, body   string
		subresources []string
	}{
		{"a heartbeat", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2026-11-22T10:00:00Z"}]}}`, []string{"status"}},
		{"managedFields emptied", `{"metadata":{"managedFields":[{}]}}`, nil},
		{"a label of its own", `{"metadata":{"labels":{"mine":"1"}}}`, nil},
		{"an annotation of its own", `{"metadata":{"annotations":{"volumes.kubernetes.io/x":"on"}}}`, nil},
		{"an annotation of its own, changed", `{"metadata":{"annotations":{"volumes.kubernetes.io/x":"off"}}}`, nil},
		{"an annotation of its own, removed", `{"metadata":{"annotations":{"volumes.kubernetes.io/x":null}}}`, nil},
	}
	for state, annotate := range map[string]func(annotations map[string]string){
		"with a stamp":                        func(map[string]string) {},
		"without annotations":                 func(annotations map[string]string) { clear(annotations) },
		"with 2,000 annotations and a stamp":  func(annotations map[string]string) { maps.Copy(annotations, manyLabels(2_000)) },
		"with an annotation that is no UTF-8": func(annotations map[string]string) { annotations[ownPrefix+"odd"] = "\xff\x00" },
	} {
		t.Run(state, func(t *testing.T) {
			name := "passes-" + strings.Map(func(r rune) rune { return map[bool]rune{true: r, false: -1}[r >= 'a' && r <= 'z'] }, state)
			node := nodekeep.Register(t, name)
			annotate(node.Annotations)
			_, err := clientFor(t, nodekeep.Cluster.Admin(), asProtobuf).CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
			require.NoError(t, err)
			prev, nodes := ownAnnotations(nodekeep.Node(t, name)), clientFor(t, nodekeep.Cluster.Kubelet(name), asProtobuf).CoreV1().Nodes()
			for _, patch := range patches {
				node, err = nodes.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch.body), metav1.PatchOptions{}, patch.subresources...)
				require.NoError(t, err, patch.name)
			}
			node.Status.Phase = corev1.NodeRunning
			_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			require.NoError(t, err, "a status by PUT")
			assert.Equal(t, prev, ownAnnotations(nodekeep.Node(t, name)))
			_, err = nodes.Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
			assert.True(t, apierrors.IsAlreadyExists(err), "a restarted kubelet gets past admission: %v", err)
		})
	}
}

func TestEveryCreateIsStrippedOfNodekeepsAnnotations(t *testing.T) {
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	forgery := claims()
	forgery[ownPrefix+"x.Y_z-1"] = "x"
	create := func(contentType string, annotations map[string]string) func(t *testing.T, name string) error {
		return func(t *testing.T, name string) error {
			node := harness.Registration(name)
			node.Annotations = maps.Clone(annotations)
			_, err := clientFor(t, nodekeep.Cluster.Kubelet(name), contentType).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
			return err
		}
	}
	replacement := func(extra map[string]string) map[string]string {
		all := maps.Clone(forgery)
		maps.Copy(all, extra)
		return all
	}
	flood := manyLabels(2_000)
	maps.Copy(flood, claims())
	nodekeep.WithoutCapture(t, func() {
		nodekeep.WithoutWebhook(t, func() {
			for subject, way := range map[string]struct {
				name string
				send func(t *testing.T, name string) error
				left map[string]string // of other annotations
			}{
				"JSON":                            {"strip-1", create(asJSON, forgery), nil},
				"protobuf":                        {"strip-2", create(asProtobuf, forgery), nil},
				"next to others":                  {"strip-3", create(asJSON, replacement(map[string]string{"example.com/a": "1", "b~0.c": "2"})), nil},
				"next to others that are allowed": {"strip-4", create(asJSON, replacement(map[string]string{"example.com/a": "1"})), map[string]string{"example.com/a": "1"}},
				"one of them":                     {"strip-5", create(asJSON, map[string]string{policy.TaintsAnnotation: "x"}), nil},
				"another one only":                {"strip-6", create(asJSON, map[string]string{ownPrefix + "x": "x"}), nil},
				"a value that is no UTF-8":        {"strip-7", create(asProtobuf, map[string]string{policy.StampAnnotation: "{\xff}"}), nil},
				"nothing to strip":                {"strip-8", create(asJSON, map[string]string{"example.com/a": "1"}), map[string]string{"example.com/a": "1"}},
				"no annotations":                  {"strip-9", create(asJSON, nil), nil},
				"an empty map of annotations":     {"strip-10", create(asProtobuf, map[string]string{}), nil},
				"behind 2,000 others":             {"strip-11", create(asJSON, flood), nil},
				"server-side apply": {"strip-12", func(t *testing.T, name string) error {
					_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.ApplyPatchType, applied(t, name, forgery), metav1.PatchOptions{FieldManager: "nodekeep"})
					return err
				}, nil},
				"a kubelet's name without its group": {"strip-13", func(t *testing.T, name string) error {
					node := harness.Registration(name)
					node.Annotations = forgery
					_, err := clientFor(t, claiming("system:node:"+name), asJSON).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
					return err
				}, nil},
			} {
				t.Run(subject, func(t *testing.T) {
					err := way.send(t, way.name)
					if subject == "next to others" {
						require.True(t, apierrors.IsInvalid(err), "'~' is no part of a key: %v", err)
						return
					}
					require.NoError(t, err, "a kubelet must always be able to register its Node")
					node := nodekeep.Node(t, way.name)
					assert.Empty(t, ownAnnotations(node))
					for key, value := range way.left {
						assert.Equal(t, value, node.Annotations[key])
					}
					assert.True(t, harness.Gated(node), "the gate policy acts too")
				})
			}
			t.Run("with generateName", func(t *testing.T) {
				node := harness.Registration("strip-generated")
				node.Name, node.GenerateName, node.Annotations = "", "strip-generated-", forgery
				_, err := nodekeep.Kubelet(t, "strip-generated").CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
				require.True(t, apierrors.IsForbidden(err), "a kubelet creates its own Node only: %v", err)
				made, err := clientFor(t, claiming("system:node:other"), asJSON).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
				require.NoError(t, err)
				assert.Empty(t, ownAnnotations(made))
			})
			t.Run("of a Node that exists", func(t *testing.T) {
				err := create(asJSON, forgery)(t, "strip-1")
				assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
				assert.Empty(t, ownAnnotations(nodekeep.Node(t, "strip-1")))
			})
		})
	})
	t.Run("an administrator's CREATE, as from a backup", func(t *testing.T) {
		nodekeep.WithoutWebhook(t, func() {
			node := harness.Registration("strip-admin")
			node.Annotations = maps.Clone(forgery)
			node.Annotations["example.com/a"] = "1"
			made, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Empty(t, ownAnnotations(made))
			assert.Equal(t, "1", made.Annotations["example.com/a"])
		})
	})
	t.Run("the webhook's own annotations stay", func(t *testing.T) {
		for name := range map[string]bool{"strip-20": true, "strip-21": true} {
			require.NoError(t, create(asJSON, forgery)(t, name))
			annotations := ownAnnotations(nodekeep.Node(t, name))
			assert.Equal(t, record.Stamp{}.String(), annotations[policy.StampAnnotation])
			assert.NotContains(t, annotations, ownPrefix+"x.Y_z-1")
		}
	})
}

func TestAGuardPolicyThatDoesNothingCountsAsMissing(t *testing.T) {
	t.Parallel() // with others that wait for what nodekeep looks at now and then
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	guardsSeen(t, 1)
	bindings := nodekeep.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"validationActions": []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}}})
	require.NoError(t, err)
	_, err = bindings.Patch(t.Context(), "nodekeep-guard", types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
	guardsSeen(t, 0)
	log, err := os.ReadFile(nodekeep.Cluster.LogPath(captureProcess))
	require.NoError(t, err)
	assert.Contains(t, string(log), "validatingadmissionpolicybinding/nodekeep-guard has another spec: spec.validationActions is ")
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	guardsSeen(t, 1)
}

// The stamp is the only trace of a taint that an operator removed before anybody observed it on the new Node object.
func TestATaintThatOnlyTheStampShowsIsForgottenWhenRemovedWhileTheGuardPoliciesAreInForce(t *testing.T) {
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	guardsSeen(t, 1)
	removedUnobserved := func(t *testing.T, name string) *corev1.Node {
		node := nodekeep.Register(t, name)
		nodekeep.Taint(t, name, maintenance)
		nodekeep.Label(t, name, map[string]string{"dedicated": "ci"})
		nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci", "maintenance:NoExecute": "disk"})
		nodekeep.DeleteNode(t, name)
		nodekeep.WithoutCapture(t, func() {
			returned := nodekeep.Register(t, name)
			stamp, _ := record.ParseStamp(returned.Annotations[policy.StampAnnotation])
			require.Contains(t, stamp.Given, "maintenance:NoExecute", "%v", returned.Annotations)
			node = nodekeep.Untaint(t, name, maintenance)
		})
		return node
	}
	node := removedUnobserved(t, "evidence-1")
	nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci"})
	withoutGuards(t, func() {
		node := removedUnobserved(t, "evidence-2")
		nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci", "maintenance:NoExecute": "disk"})
		require.True(t, harness.Carries(nodekeep.Node(t, node.Name), maintenance))
	})
}

// idle returns how long nothing may be written to a Node that nobody changes.
func idle() time.Duration {
	if long() {
		return time.Minute
	}
	return 5 * time.Second
}

// underMutation does something while a policy of the cluster changes Nodes by a JSON patch. in reports whether it is in force.
func underMutation(t *testing.T, name, patch string, operations []admissionregistrationv1.OperationType, in func() bool, fn func()) {
	t.Helper()
	policies, bindings := nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicies(), nodekeep.Admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	_, err := policies.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      new(admissionregistrationv1.Fail),
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))
		require.NoError(t, policies.Delete(t.Context(), name, metav1.DeleteOptions{}))
		require.Eventually(t, func() bool { return !in() }, harness.Settles, 50*time.Millisecond, "the policy must end")
	}()
	require.Eventually(t, in, harness.Settles, 50*time.Millisecond, "the policy must come into force")
	fn()
}

func TestALabelThatAnotherAdmissionPolicySetsAtTheCreationStaysAndTheRecordFollows(t *testing.T) {
	const name = "otherpolicy-set"
	nodekeep.RegisterRecorded(t, name, map[string]string{"tier": "gold", "dedicated": "ci", worker: ""})
	nodekeep.DeleteNode(t, name)
	inForce := func() bool {
		dry, err := nodekeep.Kubelet(t, name+"-probe").CoreV1().Nodes().Create(t.Context(), harness.Registration(name+"-probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && dry.Labels["tier"] == "policy"
	}
	want := map[string]string{"tier": "policy", "dedicated": "ci", worker: ""}
	underMutation(t, name, `[JSONPatch{op: "add", path: "/metadata/labels/tier", value: "policy"}]`, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, inForce, func() {
		nodekeep.Register(t, name)
		node := nodekeep.WaitRestored(t, name, want)
		nodekeep.WaitRecorded(t, node, want)
		comesToRest(t, name, idle())
	})
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
	nodekeep.DeleteNode(t, name)
}

// Such a policy takes the evidence away. Labels may be restored once that a client removed, but nothing is fought over.
func TestAnAdmissionPolicyThatRemovesTheAnnotationsOfNodekeepIsNotFought(t *testing.T) {
	const name = "otherpolicy-strip"
	want := map[string]string{"dedicated": "ci", worker: ""}
	nodekeep.RegisterRecorded(t, name, want)
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name+"-probe")
	inForce := func() bool {
		body := harness.MustJSON(t, map[string]any{"metadata": map[string]any{"annotations": map[string]string{policy.StampAnnotation: "{}"}}})
		dry, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name+"-probe", types.MergePatchType, body, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && dry.Annotations[policy.StampAnnotation] == ""
	}
	const remove = `has(object.metadata.annotations) && "nodekeep.dev/restored" in object.metadata.annotations ? [JSONPatch{op: "remove", path: "/metadata/annotations/nodekeep.dev~1restored"}] : []`
	registers := func() {
		underMutation(t, name, remove, []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, inForce, func() {
			nodekeep.Register(t, name)
			node := nodekeep.WaitRestored(t, name, want)
			assert.NotContains(t, node.Annotations, policy.StampAnnotation)
			nodekeep.WaitRecorded(t, node, want)
			comesToRest(t, name, idle())
			nodekeep.DeleteNode(t, name)
		})
	}
	t.Run("webhook up", func(*testing.T) { registers() })
	t.Run("webhook down", func(*testing.T) { nodekeep.WithoutWebhook(t, registers) })
	nodekeep.DeleteNode(t, name+"-probe")
}

// A backup of a Node has nodekeep's annotations, which are about an object that is deleted.
func TestANodeFromABackupIsANewNode(t *testing.T) {
	require.NoError(t, nodekeep.GuardsOn(t.Context()))
	for way, outage := range map[string]func(fn func()){
		"webhook-up":   func(fn func()) { fn() },
		"webhook-down": func(fn func()) { nodekeep.WithoutWebhook(t, fn) },
	} {
		t.Run(way, func(t *testing.T) {
			name, items := "from-"+way, map[string]string{"example.com/verify": "yes", worker: ""}
			nodekeep.RegisterRecorded(t, name, items)
			returns(t, name, items)
			backup := nodekeep.Node(t, name)
			require.Contains(t, backup.Annotations, policy.StampAnnotation)
			if harness.Carries(backup, unverified) { // an operator has verified it since
				nodekeep.Untaint(t, name, unverified)
			}
			nodekeep.WaitRecorded(t, nodekeep.Node(t, name), items)
			nodekeep.DeleteNode(t, name)
			made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: backup.Labels, Annotations: maps.Clone(backup.Annotations)}}
			made.Annotations["nodekeep.dev/check"] = `{"attempts":1}`
			outage(func() {
				_, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), made, metav1.CreateOptions{})
				require.NoError(t, err)
				node := nodekeep.WaitRestored(t, name, items)
				assert.NotContains(t, node.Annotations, "nodekeep.dev/check")
				assert.True(t, harness.Carries(node, unverified), "what a new Node gets once; it has %v", harness.TaintsOf(node))
			})
			nodekeep.DeleteNode(t, name)
		})
	}
}
