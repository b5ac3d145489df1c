package chart

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/test/harness"
)

// noChanges is what a check prints where the file and the cluster have the same policy.
const noChanges = `(?m)^Changes: +none$`

// The pages' own commands: each revision lacks keys that the one before had.
func TestThePolicyThatWasCheckedIsTheOneThatHelmInstallsAndARollbackReturnsToTheOneBefore(t *testing.T) {
	withoutPolicies(t)
	t.Cleanup(func() { withoutPolicies(t) })
	labelled(t, "checked-1", "rack=a1", "row=1")
	r := release{namespace: harness.Namespace, serverSide: "true"}
	first := "cordon: keep\nretention: 240h\nlabels: {ignore: [rack], operators: [lens]}\ntaints: {ignore: [example.com/old]}"
	second := "labels: {ignore: [rack, row]}\nmachine: {follow: true}"
	third := "machine: {follow: true}"
	change, returned := changing(t)

	installs := documented(t, "## Install")
	checked := r.types(t, first, containing(t, installs, "helm template"))
	assert.NotRegexp(t, noChanges, checked)
	assert.Regexp(t, `cordon +ignore +keep`, checked, "the check is of the file that is installed")
	r.types(t, first, containing(t, installs, "helm install"))
	defer r.helm(t, "uninstall", "nodekeep", "--no-hooks")
	r.isInForce(t, first)

	text := r.types(t, second, change)
	head, tail, found := strings.Cut(text, "Release \"nodekeep\" has been upgraded")
	require.True(t, found, text)
	assert.Regexp(t, `cordon +keep +ignore`, head, "the check names what the file lost")
	assert.Regexp(t, `no longer kept +label +row +1 `, head)
	assert.Regexp(t, noChanges, tail, "and once more, after the upgrade")
	r.isInForce(t, second)
	assert.Regexp(t, noChanges, r.types(t, third, change))
	r.isInForce(t, third)

	r.types(t, second, strings.ReplaceAll(returned, "REVISION", "2"))
	r.isInForce(t, second)
	r.types(t, first, strings.ReplaceAll(returned, "REVISION", "1"))
	r.isInForce(t, first)
	r.types(t, third, change)
	r.isInForce(t, third)
	r.types(t, first, strings.ReplaceAll(returned, "REVISION", "1"))
	r.isInForce(t, first)

	out, err := kubectl(t.Context(), "patch", "nodepolicy", "default", "--type=merge", "--field-manager=kubectl-edit", "-p", `{"spec": {"labels": {"onConflict": "restoreStored"}}}`)
	require.NoError(t, err, out)
	_, tail, _ = strings.Cut(r.types(t, second, change), "Release \"nodekeep\" has been upgraded")
	assert.NotRegexp(t, noChanges, tail)
	assert.Regexp(t, `labels.onConflict +restoreStored +keepNode`, tail, "what kubectl has set stays, and the second check names it")

	out, err = kubectl(t.Context(), "patch", "nodepolicy", "default", "--type=merge", "--field-manager=kubectl-edit", "-p", `{"spec": {"cordon": "ignore"}}`)
	require.NoError(t, err, out)
	_, err = r.tryHelm(t, "rollback", "nodekeep", "1")
	require.ErrorContains(t, err, `conflict with "kubectl-edit"`, "a hook takes no field from another owner")
	r.helm(t, "rollback", "nodekeep", "8")
	values := append(set("policy.cordon=keep", "policy.retention=240h"), "--force-conflicts")
	r.upgrade(t, values...)
	assert.JSONEq(t, `{"cordon": "keep", "retention": "240h", "labels": {"onConflict": "restoreStored"}}`, r.policyField(t, "{.spec}"))
}

// The pages say so.
func TestWithoutServerSideApplyNoRollbackReturnsToTheFirstRevisionAndItFails(t *testing.T) {
	withoutPolicies(t)
	t.Cleanup(func() { withoutPolicies(t) })
	r := release{namespace: "checked-false", serverSide: "false"}
	revision := func(retention string) []string { return set("policy.retention=" + retention) }
	r.helm(t, append([]string{"install", "nodekeep", harness.Chart(), "--create-namespace", "--server-side=false"}, revision("1h")...)...)
	defer r.helm(t, "uninstall", "nodekeep", "--no-hooks")
	for _, retention := range []string{"1h", "2h", "3h"} {
		r.upgrade(t, revision(retention)...)
	}
	r.helm(t, "rollback", "nodekeep", "3")
	assert.JSONEq(t, `{"retention": "2h"}`, r.policyField(t, "{.spec}"))

	_, err := r.tryHelm(t, "rollback", "nodekeep", "1")

	require.ErrorContains(t, err, `nodepolicies.nodekeep.dev "default" already exists`)
	assert.JSONEq(t, `{"retention": "2h"}`, r.policyField(t, "{.spec}"))
	_, err = r.tryHelm(t, append([]string{"upgrade", "nodekeep", harness.Chart(), "--reset-values"}, revision("1h")...)...)
	require.ErrorContains(t, err, "another operation (install/upgrade/rollback) is in progress")
	_, err = r.tryHelm(t, "rollback", "nodekeep", "5")
	require.ErrorContains(t, err, `cannot patch "default" with kind NodePolicy`, "but nothing is pending any more")
	r.upgrade(t, revision("1h")...)
	assert.JSONEq(t, `{"retention": "1h"}`, r.policyField(t, "{.spec}"), "an upgrade with the old values does")
}

// changing returns the documented commands of a change of the policy, and of a return.
func changing(t *testing.T) (change, returned string) {
	t.Helper()
	return containing(t, documented(t, "## Change the policy"), "helm upgrade"), containing(t, documented(t, "### Go back"), "helm rollback")
}

// types runs documented commands with values that have this policy, and returns what they print.
func (r release) types(t *testing.T, policy, commands string) string {
	t.Helper()
	values := "policy:\n  " + strings.ReplaceAll(policy, "\n", "\n  ") + "\n"
	out, err := typedWith(t, binary, kubeconfig, values, commands).CombinedOutput()
	require.NoError(t, err, "%s\n%s", commands, out)
	return string(out)
}

// isInForce holds the NodePolicy to what the values say, field by field, and as the page says to check it.
func (r release) isInForce(t *testing.T, policy string) {
	t.Helper()
	want, err := yaml.YAMLToJSON([]byte(policy))
	require.NoError(t, err)
	assert.JSONEq(t, string(want), r.policyField(t, "{.spec}"))
	assert.Regexp(t, noChanges, r.types(t, policy, containing(t, documented(t, "## Install"), "helm template")))
}

// labelled makes a Node on which an operator has set labels.
func labelled(t *testing.T, name string, labels ...string) {
	t.Helper()
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	out, err := kubectl(t.Context(), append([]string{"label", "node", name}, labels...)...)
	require.NoError(t, err, out)
}
