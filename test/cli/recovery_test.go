package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// recipe returns the two commands of docs/operating.md that save all records and put them into a cluster.
func recipe(t *testing.T) (save, restore string) {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(docs), "\n## Back up and restore\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for _, command := range regexp.MustCompile(`(?m)^\$ ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(section, -1) {
		commands = append(commands, command[1])
	}
	require.Len(t, commands, 2, "%q", section)
	return commands[0], commands[1]
}

// inAnotherCluster does something in a cluster of its own, in which nodekeep is installed.
func inAnotherCluster(t *testing.T, fn func()) {
	t.Helper()
	control, err := harness.StartCluster(t.Context(), harness.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, control.Stop()) }()
	extra, err := nodekeep.InstallOn(t.Context(), control)
	require.NoError(t, err)
	extra.TimeoutSeconds = harness.Patient
	require.NoError(t, extra.Start(t.Context()))
	defer func(prev *harness.Installation) { nodekeep = prev }(nodekeep)
	nodekeep = extra
	fn()
}

func clusterUID(t *testing.T) string {
	t.Helper()
	namespace, err := nodekeep.Admin.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	require.NoError(t, err)
	return string(namespace.UID)
}

func TestTheNodesOfALostClusterGetTheirLabelsBackInANewOneFromRecordsThatKubectlSavedAndApplied(t *testing.T) {
	loseEverything(t) // what other tests have left
	save, restore := recipe(t)
	want := map[string]map[string]string{}
	for n := range 6 {
		name := fmt.Sprintf("recovery-%d", n)
		want[name] = map[string]string{"dedicated": "ci", "rack": fmt.Sprintf("r%d", n), worker: "", "tenant:NoSchedule": "blue"}
		register(t, name)
		edit(t, name, map[string]string{"dedicated": "ci", "rack": fmt.Sprintf("r%d", n), worker: ""}, "tenant=blue:NoSchedule")
	}
	remove(t, "recovery-1")                                        // before the cluster is lost
	long := strings.Repeat(strings.Repeat("n", 49)+".", 5) + "end" // its name is shortened in that of its ConfigMap
	goneFor(t, long, 1)
	want[long] = map[string]string{"dedicated": "ci", "tenant:NoSchedule": "blue"}
	quarantined(t, "recovery-undecided")
	dir, lost := t.TempDir(), clusterUID(t)
	a := shell(t, dir, save)
	require.Equal(t, 0, a.Code, a.ErrOut)

	inAnotherCluster(t, func() {
		require.NotEqual(t, lost, clusterUID(t))
		nodekeep.SetPolicy(t, harness.Quarantining(t, nodekeep.Policy(t)))
		register(t, "recovery-0") // it was faster, and a client has labelled it
		edit(t, "recovery-0", map[string]string{"rack": "r9"})
		want["recovery-0"]["rack"] = "r9"

		a := shell(t, dir, restore)
		require.Equal(t, 0, a.Code, a.ErrOut)

		for name := range want {
			if name != "recovery-0" {
				registerWith(t, name, nil)
			}
		}
		for name, items := range want {
			harness.Eventually(t, func() bool { return assert.ObjectsAreEqual(items, labelsOf(t, name)) }, settles, settles/1000,
				"%s must have %v and no gate", name, items)
			node, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			eventually(t, name, func(r record.Record) bool {
				return r.Cluster == clusterUID(t) && r.Newest().UID == node.UID && r.DeletedAt.IsZero() && assert.ObjectsAreEqual(items, r.Items())
			})
		}
		old := recordOf(t, "recovery-undecided").Quarantined
		require.NotNil(t, old, "what is to be decided is still to be decided")
		assert.Equal(t, "aaaa", old.Machine.SystemUUID)
		assert.Contains(t, run(t, "show", "recovery-2", "--history").RequireDone(t).Out, "tenant:NoSchedule", "histories are kept")

		nodekeep.MustKubectl(t, "label", "node", "recovery-2", "rack-") // from here on they are records like any others
		eventually(t, "recovery-2", func(r record.Record) bool { _, ok := r.Items()["rack"]; return !ok })
	})
}
