package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// PolicyName is the name of the one NodePolicy.
const PolicyName = "default"

// defaultPolicy says nothing, so all is as it is by default.
const defaultPolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: " + PolicyName + "}\nspec: {}\n"

// policyHook is the entry of the ValidatingWebhookConfiguration that refuses policies which nodekeep cannot use.
const policyHook = "policy.nodekeep.dev"

// Policies returns a client of an admin for NodePolicies.
func (i *Installation) Policies() (dynamic.ResourceInterface, error) {
	config := i.Cluster.Admin()
	config.WarningHandler = rest.NoWarnings{} // they would be among what the tests print
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of policies: %w", err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "nodekeep.dev", Version: "v1alpha1", Resource: "nodepolicies"}), nil
}

// Policy returns the manifest of the NodePolicy as the API server has it, without what the API server adds. It is empty where there is none.
func (i *Installation) Policy(t testing.TB) string {
	t.Helper()
	policies, err := i.Policies()
	require.NoError(t, err)
	current, err := policies.Get(context.WithoutCancel(t.Context()), PolicyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(t, err)
	manifest := map[string]any{"apiVersion": current.GetAPIVersion(), "kind": current.GetKind(), "metadata": map[string]any{"name": current.GetName()}, "spec": current.Object["spec"]}
	content, err := yaml.Marshal(manifest)
	require.NoError(t, err)
	return string(content)
}

// PolicyFile returns a file with the manifest of the NodePolicy as it is now, for commands that take --policy.
func (i *Installation) PolicyFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(i.Policy(t)), 0o600))
	return file
}

// WritePolicy makes the NodePolicy what a manifest says, and does not wait for the processes, which follow it.
func (i *Installation) WritePolicy(ctx context.Context, content string) error {
	_, err := i.storePolicy(ctx, content)
	return err
}

// SetPolicy makes the NodePolicy what a manifest says. It returns when the running processes have taken it over, or refused it. Each process follows
// the object and the rules for labels that are in force at its own time. So the state of one process does not show that of another. Processes that a
// test keeps from the policy are named, and not waited for.
func (i *Installation) SetPolicy(t testing.TB, content string, deaf ...string) {
	t.Helper()
	i.whenRead(t, deaf, func(ctx context.Context) (int64, error) { return i.storePolicy(ctx, content) })
}

// RenewPolicy makes a new generation of the NodePolicy. It says the same as before, in other words. So capture looks for acceptance
// at once.
func (i *Installation) RenewPolicy(t testing.TB) {
	t.Helper()
	i.SetPolicy(t, renewed(t, i.Policy(t)))
}

// Quarantining returns a manifest that quarantines other machines, and says the same otherwise.
func Quarantining(t testing.TB, content string) string {
	t.Helper()
	manifest := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(content), &manifest))
	require.NoError(t, unstructured.SetNestedField(manifest, "quarantine", "spec", "machine", "onMismatch"))
	changed, err := yaml.Marshal(manifest)
	require.NoError(t, err)
	return string(changed)
}

// Quarantine has the NodePolicy quarantine other machines until the test ends. Otherwise capture ends each quarantine that a test writes.
func (i *Installation) Quarantine(t testing.TB) {
	t.Helper()
	head := i.Policy(t)
	if quarantines := Quarantining(t, head); quarantines != head {
		i.SetPolicy(t, quarantines)
		t.Cleanup(func() { i.SetPolicy(t, head) })
	}
}

// renewed returns a manifest that says the same in other words: its retention is spelt in another way.
func renewed(t testing.TB, content string) string {
	t.Helper()
	manifest := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(content), &manifest))
	spec, _ := manifest["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	old := "720h"
	if says, set := spec["retention"]; set {
		old = fmt.Sprint(says)
	}
	spec["retention"] = old + "0s"
	manifest["spec"] = spec
	return string(MustJSON(t, manifest))
}

// ForcePolicy is SetPolicy for a policy that the webhook refuses. It is stored while the API server does not ask the webhook. What the schema
// refuses cannot be stored at all.
func (i *Installation) ForcePolicy(t testing.TB, content string) {
	t.Helper()
	i.whenRead(t, nil, func(ctx context.Context) (generation int64, err error) {
		err = i.withoutPolicyHook(ctx, func() error {
			var storing error
			waiting := poll(ctx, func() (bool, error) {
				generation, storing = i.storePolicy(ctx, content)
				return !isRefusal(storing), nil
			})
			return errors.Join(waiting, storing)
		})
		return generation, err
	})
	if p := i.Cluster.Process(webhookName); p != nil && p.running() {
		modified := renewed(t, content) // an update that changes nothing of the spec passes
		err := poll(context.WithoutCancel(t.Context()), func() (bool, error) {
			err := i.refuses(t.Context(), modified)
			return isRefusal(err), err
		})
		require.NoError(t, err, "the API server must ask the webhook again")
	}
}

// WithoutPolicyHook has the API server store each NodePolicy that the schema takes, while do runs.
func (i *Installation) WithoutPolicyHook(t testing.TB, fn func()) {
	t.Helper()
	require.NoError(t, i.withoutPolicyHook(context.WithoutCancel(t.Context()), func() error {
		wrong := i.dryApply(t, "labels: {keep: [a b]}")
		require.Eventually(t, func() bool { return wrong() == nil }, Settles, 50*time.Millisecond, "the API server must not ask the webhook")
		fn()
		return nil
	}))
}

// WaitForTheSchema waits until the API server refuses what the schema of the manifests does not have.
func (i *Installation) WaitForTheSchema(t testing.TB) {
	t.Helper()
	unknown := i.dryApply(t, "lables: {}")
	require.Eventually(t, func() bool { return unknown() != nil }, Settles, 50*time.Millisecond, "the API server must take over the schema")
	require.Eventually(t, func() bool { // it publishes the schema later
		_, err := i.Kubectl(context.WithoutCancel(t.Context()), "explain", "nodepolicy.spec.labels.rules")
		return err == nil
	}, Settles, 50*time.Millisecond, "the API server must publish the schema")
}

// dryApply applies a policy by a dry run, each time that it is called.
func (i *Installation) dryApply(t testing.TB, sections string) func() error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(policytest.Manifest(sections)), 0o600))
	return func() error {
		_, err := i.Kubectl(context.WithoutCancel(t.Context()), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file)
		return err
	}
}

// DeletePolicy deletes the NodePolicy. No process takes this for an instruction.
func (i *Installation) DeletePolicy(t testing.TB) {
	t.Helper()
	policies, err := i.Policies()
	require.NoError(t, err)
	require.NoError(t, policies.Delete(t.Context(), PolicyName, metav1.DeleteOptions{}))
}

// UsePolicy restarts both processes with another policy, and capture with these arguments behind its own. They are restarted as
// they were by restore, or at the end of the test.
func (i *Installation) UsePolicy(t testing.TB, content string, captureArgs ...string) (restore func()) {
	t.Helper()
	head, argsBefore := i.Policy(t), i.CaptureArgs
	ctx := context.WithoutCancel(t.Context())
	use := func(content string, args []string) {
		t.Helper()
		var stops, starts errgroup.Group
		stops.Go(i.StopWebhook)
		stops.Go(i.StopCapture)
		require.NoError(t, stops.Wait())
		require.NoError(t, i.WritePolicy(ctx, content))
		i.CaptureArgs = args
		starts.Go(func() error { return i.StartWebhook(ctx) })
		starts.Go(func() error { return i.StartCapture(ctx) })
		require.NoError(t, starts.Wait())
	}
	use(content, captureArgs)
	restore = sync.OnceFunc(func() { use(head, argsBefore) })
	t.Cleanup(restore)
	return restore
}

// storePolicy creates or replaces the NodePolicy. Its metadata stay, but for those of the manifest. The result is the generation that processes are
// to take over; 0 if nothing has changed.
func (i *Installation) storePolicy(ctx context.Context, content string) (generation int64, err error) {
	var wanted unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(content), &wanted.Object); err != nil {
		return 0, fmt.Errorf("decode policy: %w", err)
	}
	policies, err := i.Policies()
	if err != nil {
		return 0, err
	}
	var current, stored *unstructured.Unstructured
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) { // capture writes the status
		current, err = policies.Get(ctx, wanted.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			current = &unstructured.Unstructured{}
			stored, err = policies.Create(ctx, &wanted, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		case err == nil:
			stored, err = policies.Update(ctx, replaced(current, &wanted), metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("store policy: %w", err)
	}
	if stored.GetUID() == current.GetUID() && stored.GetGeneration() == current.GetGeneration() {
		return 0, nil
	}
	return stored.GetGeneration(), nil
}

// replaced returns an object with all that a manifest says in place of what it says, but for metadata.
func replaced(current, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	replacement := wanted.DeepCopy()
	replacement.Object["metadata"] = current.DeepCopy().Object["metadata"]
	return replacement
}

// refuses returns the error of the API server for a policy, which is not stored.
func (i *Installation) refuses(ctx context.Context, content string) error {
	var wanted unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(content), &wanted.Object); err != nil {
		return fmt.Errorf("decode policy: %w", err)
	}
	policies, err := i.Policies()
	if err != nil {
		return err
	}
	current, err := policies.Get(ctx, PolicyName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read policy: %w", err)
	}
	_, err = policies.Update(ctx, replaced(current, &wanted), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// isRefusal reports whether the webhook has refused a policy.
func isRefusal(err error) bool {
	return err != nil && strings.Contains(err.Error(), fmt.Sprintf("admission webhook %q denied the request", policyHook))
}

// poll asks until done says yes. An error counts only when the time is over.
func poll(ctx context.Context, done func() (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		var ok bool
		ok, last = done()
		return ok, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// withoutPolicyHook does something while the API server does not ask the webhook about policies. API servers notice within moments.
func (i *Installation) withoutPolicyHook(ctx context.Context, fn func() error) error {
	configurations := i.Admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	replacement, err := configurations.Get(ctx, "nodekeep", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read webhook configuration: %w", err)
	}
	pos, found := hookAt(replacement, policyHook)
	if !found {
		return fmt.Errorf("the ValidatingWebhookConfiguration has no entry %s", policyHook)
	}
	path := fmt.Sprintf("/webhooks/%d", pos)
	change := func(operation map[string]any) error {
		patch, err := json.Marshal([]map[string]any{operation})
		if err != nil {
			return err
		}
		if _, err = configurations.Patch(ctx, replacement.Name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s entry %s of the webhook configuration: %w", operation["op"], policyHook, err)
		}
		return nil
	}
	if err := change(map[string]any{"op": "remove", "path": path}); err != nil {
		return err
	}
	return errors.Join(fn(), change(map[string]any{"op": "add", "path": path, "value": replacement.Webhooks[pos]}))
}

func hookAt(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, name string) (i int, found bool) {
	i = slices.IndexFunc(configuration.Webhooks, func(hook admissionregistrationv1.ValidatingWebhook) bool { return hook.Name == name })
	return i, i >= 0
}

// DeletionHook returns the entry of the ValidatingWebhookConfiguration for deletions of Nodes, and its JSON path.
func (i *Installation) DeletionHook(t testing.TB) (hook admissionregistrationv1.ValidatingWebhook, path string) {
	t.Helper()
	replacement, err := i.Admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(context.WithoutCancel(t.Context()), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	pos, found := hookAt(replacement, "deletion.nodekeep.dev")
	require.True(t, found)
	return replacement.Webhooks[pos], fmt.Sprintf("/webhooks/%d", pos)
}

// whenRead changes the NodePolicy. It returns when each running process of the installation has read the new generation. It does not wait for those
// that are deaf.
func (i *Installation) whenRead(t testing.TB, deaf []string, change func(context.Context) (generation int64, err error)) {
	t.Helper()
	var followers []*Process
	sizes := map[*Process]int{}
	for _, name := range []string{webhookName, captureName, verifyName} {
		if p := i.Cluster.Process(name); p != nil && p.running() && !slices.Contains(deaf, name) {
			followers, sizes[p] = append(followers, p), len(logOf(t, p))
		}
	}
	generation, err := change(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	if generation == 0 {
		return
	}
	for _, p := range followers {
		Eventually(t, func() bool { return hasRead(logOf(t, p)[sizes[p]:], generation) }, Settles, 20*time.Millisecond,
			"%s must read generation %d of the policy; its log is %s", p.Name(), generation, p.LogPath())
	}
}

// policyRead is a line of a process that has taken over a NodePolicy, or refused it.
var policyRead = regexp.MustCompile(`msg="policy (?:in force|cannot be used; the last good one stays in force)" .*?\bgeneration=(\d+)`)

// hasRead reports whether a log shows that a process has read this generation of the policy, or a later one.
func hasRead(log string, generation int64) bool {
	for _, line := range policyRead.FindAllStringSubmatch(log, -1) {
		if read, err := strconv.ParseInt(line[1], 10, 64); err == nil && read >= generation {
			return true
		}
	}
	return false
}

func logOf(t testing.TB, p *Process) string {
	t.Helper()
	log, err := os.ReadFile(p.LogPath())
	require.NoError(t, err)
	return string(log)
}

// policyDocument is in the manifest of a NodePolicy, and in no other one.
var policyDocument = regexp.MustCompile(`(?m)^kind: NodePolicy$`)

// withoutPolicy returns a copy of a file of manifests, without the NodePolicy.
func (i *Installation) withoutPolicy(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read manifests: %w", err)
	}
	docs := slices.DeleteFunc(strings.Split(string(content), "\n---\n"), policyDocument.MatchString)
	file := filepath.Join(i.Cluster.Dir(), "without-policy-"+filepath.Base(path))
	return file, writeFile(file, []byte(strings.Join(docs, "\n---\n")))
}
