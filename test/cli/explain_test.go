package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// reviews are those that the tests of the webhook use.
var reviews = filepath.Join("..", "..", "webhook", "testdata")

// explained is what `explain -o json` prints, as far as the tests look at it.
type explained struct {
	Registration struct {
		Outcome string
		Gated   bool
		Patch   json.RawMessage
	}
	Follows struct {
		Node, Why string
		Waits     []string
	}
	Items []struct {
		Item, Registration, Why string
		Kept                    bool
	}
}

func explanation(t *testing.T, args ...string) explained {
	t.Helper()
	var e explained
	answerJSON(t, &e, append([]string{"explain"}, args...)...)
	return e
}

func TestExplainSaysOfEachLabelAndTaintWhyItIsKeptAndWhatARegistrationGets(t *testing.T) {
	register(t, "explain-1")
	edit(t, "explain-1", map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""}, "tenant=blue:NoSchedule")
	nodekeep.MustKubectl(t, "label", "node", "explain-1", "topology.kubernetes.io/zone=a")
	nodekeep.MustKubectl(t, "label", "node", "explain-1", "cloud=made", "--field-manager=my-cloud-controller-manager")

	requireGolden(t, "explain", run(t, "explain", "explain-1").RequireDone(t).Out)
	requireGolden(t, "explain-wide", run(t, "explain", "explain-1", "-o", "wide").RequireDone(t).Out)

	remove(t, "explain-1")
	requireGolden(t, "explain-gone", run(t, "explain", "explain-1").RequireDone(t).Out)
}

// What explain foretells of a registration is what the next registration gets.
func TestWhatExplainForetellsIsWhatARegistrationGets(t *testing.T) {
	const name = "explain-2"
	register(t, name)
	edit(t, name, map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""}, "tenant=blue:NoSchedule")
	client, err := kubernetes.NewForConfig(nodekeep.Cluster.Kubelet(name))
	require.NoError(t, err)
	var foretold explained
	var node *corev1.Node
	for range 5 {
		remove(t, name)
		foretold = explanation(t, name)
		began := time.Now()
		node, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		if time.Since(began) < time.Second {
			break
		}
		t.Log("the registration took so long that it may have continued without the webhook: once more")
		eventuallyHas(t, name, "node-role.kubernetes.io/worker")
	}

	assert.Equal(t, "deferred", foretold.Registration.Outcome)
	gated := false
	for _, taint := range node.Spec.Taints {
		gated = gated || taint.Key == "nodekeep.dev/restoring"
	}
	assert.Equal(t, gated, foretold.Registration.Gated)
	for _, item := range foretold.Items {
		_, labelled := node.Labels[item.Item]
		tainted := false
		for _, taint := range node.Spec.Taints {
			tainted = tainted || taint.Key+":"+string(taint.Effect) == item.Item
		}
		switch item.Registration {
		case "restored":
			assert.True(t, labelled || tainted, item.Item)
		case "deferred: restored behind the gate":
			assert.False(t, labelled || tainted, item.Item)
		}
	}
	eventuallyHas(t, name, "node-role.kubernetes.io/worker")
}

func TestExplainTakesAReviewFromAFileWithoutACluster(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join(reviews, "reviews", "protected-labels-wait-behind-the-gate.yaml"))
	require.NoError(t, err)
	_, answer, _ := strings.Cut(string(golden), "\n---\n")
	var want struct{ Patch json.RawMessage }
	require.NoError(t, yaml.Unmarshal([]byte(answer), &want))
	file, record := filepath.Join(reviews, "base", "kubelet.json"), filepath.Join(reviews, "records", "protected-labels.json")
	nowhere := []string{"--server", "https://127.0.0.1:1", "--offline"}

	e := explanation(t, append(nowhere, "--review", file, "--record", record)...)

	assert.Equal(t, "deferred", e.Registration.Outcome)
	assert.JSONEq(t, string(want.Patch), string(e.Registration.Patch), "the patch that the webhook answers with")
	review, err := os.ReadFile(file)
	require.NoError(t, err)
	requireGolden(t, "explain-review", answering(t, string(review), append([]string{"explain", "--review", "-", "--record", record}, nowhere...)...).RequireDone(t).Out)
}
