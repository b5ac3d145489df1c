package monitoring

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// remedies tries the commands of the alerts: with the webhook and capture down, when it matters.
func remedies(t *testing.T, nodekeep *harness.Installation) {
	nodes := nodekeep.Admin.CoreV1().Nodes()
	require.NoError(t, nodekeep.StopCapture())
	_ = nodekeep.StopWebhook() // an earlier test may have stopped it
	for _, name := range []string{"gated-1", "gated-2", "free-1"} {
		node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.True(t, harness.Gated(node), "the gate policy is in force and nobody lifts the gate")
	}
	nodekeep.MustKubectl(t, "taint", "node", "free-1", "nodekeep.dev/restoring-")
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: store.Name("gated-1"), Labels: map[string]string{store.RecordLabel: "true"}}}
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), record, metav1.CreateOptions{})
	require.NoError(t, err)

	t.Run("every command in the alerts is one", func(t *testing.T) {
		nodekeep.MustKubectl(t, "create", "clusterrolebinding", "nodekeep-verify-removal", "--clusterrole=view", "--user=nobody") // as with onFailure
		tried := 0
		for _, a := range alerts(t).alerts() {
			for _, command := range commands(a) {
				if slices.Contains(command, "jsonpath='{range") {
					continue // below, in a shell
				}
				// Nothing here serves what these need: kubelets' figures, an editor, cert-manager.
				if slices.ContainsFunc([]string{"top", "edit", "certificate,certificaterequest"}, func(word string) bool { return slices.Contains(command, word) }) {
					continue
				}
				if slices.ContainsFunc([]string{"delete", "patch", "taint"}, func(verb string) bool { return slices.Contains(command, verb) }) {
					command = append(command, "--dry-run=server")
				}
				out, err := nodekeep.Kubectl(t.Context(), command...)
				if err != nil && !notAllGated(out) {
					t.Errorf("%s: kubectl %s: %v\n%s", a.Alert, strings.Join(command, " "), err, out)
				}
				tried++
			}
		}
		assert.Greater(t, tried, 20)
	})
	t.Run("one of them finds the largest record", func(t *testing.T) { findsTheLargestRecord(t, nodekeep) })
	t.Run("one of them opens the Nodes, and every critical alert names it", func(t *testing.T) {
		for _, a := range alerts(t).alerts() {
			found := regexp.MustCompile("`nodekeep ([^`]* emergency)`").FindStringSubmatch(filled().Replace(a.Annotations["description"]))
			if a.Labels["severity"] == "critical" {
				require.NotNil(t, found, a.Alert)
			}
			if found == nil || a.Alert != "NodekeepManyNodesGated" {
				continue
			}
			opened := nodekeep.Command(t, "", "", append(strings.Fields(found[1]), "--yes", "--settle", "1s")...)
			require.Zero(t, opened.Code, opened.ErrOut)
			assert.Empty(t, nodekeep.GatedNodes(t))
			nodekeep.WaitGating(t, false)
		}
		ended := nodekeep.Command(t, "", "", "emergency", "--end", "--yes")
		require.Zero(t, ended.Code, ended.ErrOut)
		nodekeep.WaitGating(t, true)
	})
}

// notAllGated reports whether kubectl says that some Nodes did not have the gate. It frees the others all the same.
func notAllGated(out string) bool {
	return strings.Contains(out, `error: taint "nodekeep.dev/restoring" not found`) || strings.Contains(out, `taint "nodekeep.dev/unverified" not found`)
}

// filled puts in what an operator fills in.
func filled() *strings.Replacer {
	return strings.NewReplacer("{{ $labels.namespace }}", harness.Namespace, "<namespace of nodekeep>", harness.Namespace, "<name>", "gated-1", `'{"data":null}'`, `{"data":null}`)
}

// commands returns those that an alert's description has for kubectl, without what they are piped into.
func commands(a alert) (all [][]string) {
	for _, found := range regexp.MustCompile("`kubectl ([^`]*)`").FindAllStringSubmatch(a.Annotations["description"], -1) {
		command, _, _ := strings.Cut(filled().Replace(found[1]), " | ")
		all = append(all, strings.Fields(command))
	}
	return all
}

// findsTheLargestRecord types a line that pipes, as it stands.
func findsTheLargestRecord(t *testing.T, nodekeep *harness.Installation) {
	large := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name("large-1"), Labels: map[string]string{store.RecordLabel: "true"}},
		Data:       map[string]string{store.DataKey: strings.Repeat("a line\n", 10_000)},
	}
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), large, metav1.CreateOptions{})
	require.NoError(t, err)
	all := alerts(t).alerts()
	i := slices.IndexFunc(all, func(a alert) bool { return a.Alert == "NodekeepRecordTooLarge" })
	require.GreaterOrEqual(t, i, 0)
	line := regexp.MustCompile("`(kubectl [^`]*)`").FindStringSubmatch(filled().Replace(all[i].Annotations["description"]))
	require.NotNil(t, line)
	out := nodekeep.Shell(t, "", "", line[1]).RequireDone(t).Out
	assert.Regexp(t, `\n\d{5,} node\.large-1\n$`, out)
}
