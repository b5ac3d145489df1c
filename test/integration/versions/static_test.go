package versions

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/test/harness"
)

// staticAdmission returns a copy of manifests/static-admission, and the arguments by which an API server reads it.
func staticAdmission(t *testing.T) (folder string, args []string) {
	t.Helper()
	version, err := nodekeep.Admin.Discovery().ServerVersion()
	require.NoError(t, err)
	minor, err := strconv.Atoi(version.Minor)
	require.NoError(t, err)
	switch {
	case minor < 36:
		t.Skipf("Kubernetes %s reads no admission policies from files (1.36: alpha; 1.37: beta)", version.GitVersion)
	case minor == 36:
		args = append(args, "--feature-gates=ManifestBasedAdmissionControlConfig=true")
	}
	folder, flag := harness.StaticAdmission(t)
	return folder, append(args, flag)
}

// withoutPolicies returns a copy of the manifests in which nodekeep.yaml has no admission policy.
func withoutPolicies(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "manifests")
	require.NoError(t, os.CopyFS(folder, os.DirFS(harness.Manifests())))
	file := filepath.Join(folder, "nodekeep.yaml")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var rest []string
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		if !strings.Contains(document, "\nkind: MutatingAdmissionPolicy") && !strings.Contains(document, "\nkind: ValidatingAdmissionPolicy") {
			rest = append(rest, document)
		}
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(rest, "\n---\n")), 0o600))
	return folder
}

// names returns the names of all admission policies and bindings that the API has.
func names(t *testing.T, current *harness.Installation) []string {
	t.Helper()
	return strings.Fields(current.MustKubectl(t, "get", policyKinds, "-o", `jsonpath={.items[*].metadata.name}`))
}

const policyKinds = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,validatingadmissionpolicybindings"

func TestPoliciesFromFilesGateAndGuardAndNobodyChangesThemThroughTheAPI(t *testing.T) {
	folder, args := staticAdmission(t)
	current, err := harness.InstallProduct(t.Context(), harness.ForTest(t, harness.Options{APIServerArgs: args}), harness.Product{Binary: nodekeep.Binary(), Manifests: withoutPolicies(t)})
	require.NoError(t, err)
	current.TimeoutSeconds = harness.Patient
	require.Empty(t, names(t, current), "the API has no policy, so all that follows is done by those of the files")
	forged := map[string]string{"nodekeep.dev/forged": "x"}
	// gatedAndGuarded registers a Node, with an annotation that only nodekeep may write.
	gatedAndGuarded := func(t *testing.T, name string) {
		t.Helper()
		node := harness.Registration(name)
		node.Annotations = forged
		created := current.RegisterNode(t, node)
		assert.True(t, harness.Gated(created), "the API server gates it")
		assert.NotContains(t, created.Annotations, "nodekeep.dev/forged", "and removes what a kubelet forges")
		_, err := current.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"nodekeep.dev/later":"x"}}}`), metav1.PatchOptions{})
		assert.ErrorContains(t, err, "'nodekeep-guard.static.k8s.io'")
	}

	t.Run("before any process runs", func(t *testing.T) {
		gatedAndGuarded(t, "files-first")
	})
	t.Run("the other guards", func(t *testing.T) {
		_, err := current.ClientFor(t, "nodekeep-webhook").CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "trusted-certificates"}}, metav1.CreateOptions{})
		require.ErrorContains(t, err, "'nodekeep-records.static.k8s.io'")
		_, err = current.Kubelet(t, "nodekeep-self-test").CoreV1().Nodes().Create(t.Context(), harness.Registration("nodekeep-self-test"), metav1.CreateOptions{})
		assert.ErrorContains(t, err, "'nodekeep-self-test.static.k8s.io'")
	})
	t.Run("an administrator cannot read, change, delete or replace them", func(t *testing.T) {
		for _, object := range ofFiles(t) {
			resource, name := object.resource, object.name
			for _, args := range [][]string{
				{"get", resource, name},
				{"delete", resource, name},
				{"patch", resource, name, "--type=merge", "--patch", `{"metadata":{"labels":{"a":"b"}}}`},
			} {
				out, err := current.Kubectl(t.Context(), args...)
				require.Error(t, err, "%s %s", args[0], name)
				assert.Contains(t, out, "NotFound", "%s %s", args[0], name)
			}
			file := filepath.Join(t.TempDir(), "policy.yaml")
			require.NoError(t, os.WriteFile(file, []byte(object.text), 0o600))
			for _, args := range [][]string{{"create", "-f", file}, {"apply", "--server-side", "-f", file}} {
				out, err := current.Kubectl(t.Context(), args...)
				require.Error(t, err, "%s %s", args[0], name)
				assert.Contains(t, out, "reserved for static manifest-based configurations", "%s %s", args[0], name)
			}
		}
		current.MustKubectl(t, "delete", policyKinds, "--all")
		gatedAndGuarded(t, "files-deleted")
	})
	t.Run("an invalid file changes nothing, and a valid one is read without a restart", func(t *testing.T) {
		file := filepath.Join(folder, "mutating", "nodekeep.yaml")
		valid, err := os.ReadFile(file)
		require.NoError(t, err)
		replace := func(content []byte) { // with a rename: written in place, the file could be read while it is empty
			require.NoError(t, os.WriteFile(file+".new", content, 0o600))
			require.NoError(t, os.Rename(file+".new", file))
		}
		replace([]byte("no policy"))
		harness.Eventually(t, func() bool {
			return current.APIServerSeries(t).Sum("apiserver_manifest_admission_config_controller_automatic_reloads_total", `plugin="MutatingAdmissionPolicy",status="failure"`) > 0
		}, harness.Settles, 50*time.Millisecond, "the API server must have read the invalid file")
		gatedAndGuarded(t, "files-invalid")
		require.NoError(t, os.Remove(file))
		current.WaitGating(t, false)
		replace(valid)
		current.WaitGating(t, true)
	})
	require.NoError(t, current.Start(t.Context()))
	t.Run("with the processes, as with policies of the API", func(t *testing.T) {
		want := map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""}
		current.WaitRestored(t, "files-first", nil)
		current.RegisterRecorded(t, "files-restored", want)
		current.DeleteNode(t, "files-restored")
		current.Register(t, "files-restored")
		current.WaitRestored(t, "files-restored", want)
	})
	t.Run("the off switch stops them", func(t *testing.T) {
		require.NoError(t, current.GateOff(t.Context()))
		current.WithoutBoth(t, func() {
			current.WaitGating(t, false)
			require.NoError(t, current.GateOn(t.Context()))
			current.WaitGating(t, true)
		})
	})
	t.Run("and so does an emergency", func(t *testing.T) {
		declaration := filepath.Join(harness.Root(), "manifests", "emergency.yaml")
		current.WithoutBoth(t, func() {
			current.MustKubectl(t, "apply", "--server-side", "-f", declaration)
			current.WaitGating(t, false)
			current.MustKubectl(t, "delete", "-f", declaration)
			current.WaitGating(t, true)
		})
	})
	t.Run("next to policies of the API they change nothing", func(t *testing.T) {
		current.MustKubectl(t, "apply", "--server-side", "-f", harness.Manifest(), "-l", "app.kubernetes.io/component in (gate,guards)")
		require.Contains(t, names(t, current), "nodekeep-gate")
		current.WithoutBoth(t, func() {
			inForce(t, current)
			gatedAndGuarded(t, "files-both") // with two copies of the taint the Node would be invalid
		})
		current.WaitRestored(t, "files-both", nil)
	})
}

func TestAnAPIServerWithAnInvalidPolicyFileDoesNotStart(t *testing.T) {
	folder, args := staticAdmission(t)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "validating", "webhook.yaml"), []byte("no policy"), 0o600))
	cluster, err := harness.StartCluster(t.Context(), harness.Options{Dir: filepath.Join(t.TempDir(), "cluster"), APIServerArgs: args})
	if cluster != nil {
		require.NoError(t, cluster.Stop())
	}
	require.ErrorContains(t, err, "failed to load static policy manifests")
}

// inForce returns when the API server has received all policies that the API has had until now: it receives them in the order of their creation.
func inForce(t *testing.T, current *harness.Installation) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "marker.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: marker}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [nodes]}]}
  failurePolicy: Ignore # not every Node has labels
  reinvocationPolicy: Never
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/example.com~1marker", value: "x"}]'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: marker}
spec: {policyName: marker}
`), 0o600))
	current.MustKubectl(t, "apply", "-f", file)
	harness.Eventually(t, func() bool {
		node, err := current.Kubelet(t, "marker-probe").CoreV1().Nodes().Create(t.Context(), harness.Registration("marker-probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && node.Labels["example.com/marker"] == "x"
	}, harness.Settles, 50*time.Millisecond, "the policies of the API must come into force")
}

// ofFile is a policy, or a binding, that an API server has from a file.
type ofFile struct {
	resource, name, text string
}

func ofFiles(t *testing.T) (all []ofFile) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(), "manifests", "static-admission", "*ating", "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			var object metav1.PartialObjectMetadata
			require.NoError(t, yaml.Unmarshal([]byte(document), &object), file)
			if object.Kind != "" {
				all = append(all, ofFile{strings.ToLower(object.Kind), object.Name, document})
			}
		}
	}
	require.Len(t, all, 12, "the gate, the strip, the guard, and what confines the self-test, records and the webhook, each with its binding")
	return all
}
