package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const quarantinePolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels: {keep: ['*', 'node-restriction.kubernetes.io/*']}\n  machine: {onMismatch: quarantine}\n"

const tier = "node-restriction.kubernetes.io/tier"

// registerAs registers a Node of that name on another machine, gated by its kubelet.
func registerAs(t *testing.T, name, machine string) *corev1.Node {
	t.Helper()
	return nodekeep.RegisterNode(t, registrationAs(name, machine))
}

func registrationAs(name, machine string) *corev1.Node {
	node := harness.Registration(name)
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = "system-"+machine, "machine-"+machine
	return node
}

// waitQuarantines waits until the webhook knows that the record is another machine's. Its watch brings the record moments later than a test reads it.
func waitQuarantines(t *testing.T, name, machine string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		node, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registrationAs(name, machine), dry)
		return err == nil && policy.DefaultGate.Present(node.Spec.Taints)
	}, settles, 20*time.Millisecond)
}

func TestAnotherMachineUnderTheNameIsQuarantinedUntilAnOperatorDecides(t *testing.T) {
	withPolicy(t, quarantinePolicy, func() {
		for _, c := range []struct {
			name, accept string
			want         map[string]string
			absent       string
		}{
			{"machine-1", "old", map[string]string{"dedicated": "ci", worker: "", tier: "gold", "new": "1"}, ""},
			{"machine-2", "new", map[string]string{"new": "1"}, "dedicated"},
		} {
			t.Run(c.accept+" side is accepted", func(t *testing.T) {
				old := map[string]string{"dedicated": "ci", worker: "", tier: "gold"}
				nodekeep.RegisterRecorded(t, c.name, old)
				nodekeep.DeleteNode(t, c.name)
				waitQuarantines(t, c.name, "another")
				returned := registerAs(t, c.name, "another")
				assert.NotContains(t, returned.Labels, "dedicated", "nothing is restored")
				assert.True(t, policy.DefaultGate.Present(returned.Spec.Taints), "the gate stays")
				harness.Eventually(t, func() bool { return nodekeep.RecordMap(t, c.name).Data[store.QuarantinedKey] != "" }, settles, 20*time.Millisecond)
				setAside, err := store.Decode([]byte(nodekeep.RecordMap(t, c.name).Data[store.QuarantinedKey]), c.name)
				require.NoError(t, err)
				assert.Equal(t, old, setAside.Items(), "the old side is untouched")
				nodekeep.WaitEvent(t, c.name, "MachineMismatch")
				described := nodekeep.MustKubectl(t, "describe", "node", c.name)
				assert.Contains(t, described, "nodekeep accept record "+c.name+" --machine old")
				assert.Contains(t, described, "kubectl -n "+harness.Namespace+" annotate configmap "+store.Name(c.name)+" ")

				nodekeep.Label(t, c.name, map[string]any{"new": "1"})
				recordComes(t, c.name, func(r record.Record) bool { return r.Items()["new"] == "1" })
				assert.True(t, policy.DefaultGate.Present(nodekeep.Node(t, c.name).Spec.Taints), "still undecided")

				nodekeep.MustKubectl(t, "-n", harness.Namespace, "annotate", "configmap", store.Name(c.name), store.AcceptAnnotation+"="+c.accept)
				node := nodekeep.WaitRestored(t, c.name, c.want)
				if c.absent != "" {
					assert.NotContains(t, node.Labels, c.absent)
				}
				nodekeep.WaitRecorded(t, node, c.want)
				cm := nodekeep.RecordMap(t, c.name)
				assert.NotContains(t, cm.Data, store.QuarantinedKey)
				assert.NotContains(t, cm.Annotations, store.AcceptAnnotation)
			})
		}
	})
}

func TestAnIsolationLabelGoesOnlyToTheMachineThatHadIt(t *testing.T) {
	const name = "isolated-1"
	withPolicy(t, policytest.Manifest("labels: {keep: ['*', '"+tier+"']}\n"), func() {
		nodekeep.RegisterRecorded(t, name, map[string]string{tier: "gold", "plain": "1"})
		for range 2 {
			nodekeep.DeleteNode(t, name)
			impostor := registerAs(t, name, "impostor")
			assert.Equal(t, "1", impostor.Labels["plain"])
			found := recordComes(t, name, func(r record.Record) bool { return r.Newest().UID == impostor.UID })
			assert.NotContains(t, nodekeep.Node(t, name).Labels, tier)
			assert.Equal(t, "gold", found.Items()[tier], "it stays remembered")
		}
		nodekeep.DeleteNode(t, name)
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, map[string]string{tier: "gold", "plain": "1"})
	})
}

func TestAProtectedLabelRemovedAfterACrashStaysRemovedWhileTheGuardPoliciesAreInForce(t *testing.T) {
	const name = "crashed-3"
	nodekeep.RegisterRecorded(t, name, map[string]string{"keep": "1", worker: ""})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.DeleteNode(t, name)
		returned := nodekeep.Register(t, name)
		require.True(t, policy.DefaultGate.Present(returned.Spec.Taints))
		capturePatches(t, name, map[string]string{"keep": "1", worker: ""}, map[string]any{"taints": policy.DefaultGate.RemoveFrom(returned.Spec.Taints)})
		nodekeep.Label(t, name, map[string]any{worker: nil})
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"keep": "1"})
	assert.NotContains(t, nodekeep.Node(t, name).Labels, worker)
}

func TestAMachineIsNotQuarantinedWhereNothingIsToBeProtected(t *testing.T) {
	withPolicy(t, quarantinePolicy, func() {
		const name = "machine-empty"
		nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci"})
		nodekeep.Label(t, name, map[string]any{"dedicated": nil})
		recordComes(t, name, func(r record.Record) bool { return len(r.Items()) == 0 && len(r.Entries) == 1 })
		nodekeep.DeleteNode(t, name)
		registerAs(t, name, "another")
		nodekeep.WaitRestored(t, name, nil) // it waits for nobody
		nodekeep.Label(t, name, map[string]any{"dedicated": "gpu"})
		recordComes(t, name, func(r record.Record) bool {
			return r.Items()["dedicated"] == "gpu" && r.Machine.SystemUUID == "system-another"
		})
	})
}

func TestAPolicyThatRestoresAgainEndsAQuarantine(t *testing.T) {
	const name = "machine-released"
	withPolicy(t, quarantinePolicy, func() {
		nodekeep.RegisterRecorded(t, name, map[string]string{"dedicated": "ci", worker: ""})
		nodekeep.DeleteNode(t, name)
		registerAs(t, name, "another")
		nodekeep.Label(t, name, map[string]any{"new": "1"})
		recordComes(t, name, func(r record.Record) bool { return r.WholeRecordQuarantined() || r.Items()["new"] == "1" })
		nodekeep.WaitEvent(t, name, "MachineMismatch")
	})
	nodekeep.WaitRestored(t, name, map[string]string{"dedicated": "ci", worker: "", "new": "1"})
	nodekeep.WaitEvent(t, name, "MachineChanged")
	harness.Eventually(t, func() bool { return nodekeep.RecordMap(t, name).Data[store.QuarantinedKey] == "" }, settles, 20*time.Millisecond)
}

const forgetPolicy = "machine: {onMismatch: forget, follow: true}"

// machineHas waits until the Node is open and the record has exactly these items, of the machine.
func machineHas(t *testing.T, name, machine string, items map[string]string) {
	t.Helper()
	nodekeep.WaitRestored(t, name, items)
	recordComes(t, name, func(r record.Record) bool {
		return assert.ObjectsAreEqual(items, r.Items()) && r.Machine.SystemUUID == "system-"+machine && r.DeletedAt.IsZero()
	})
}

func TestWhereNamesAreAddressesEachMachineHasItsOwnRecord(t *testing.T) {
	const first, second, third = "addressed-1", "addressed-2", "addressed-3"
	registers := func(name, machine string, items map[string]string) {
		t.Helper()
		registerAs(t, name, machine)
		if nodekeep.WaitRestored(t, name, items); len(items) > 0 { // else nothing is worth a record
			machineHas(t, name, machine, items)
		}
	}
	sets := func(name string, items map[string]any) {
		t.Helper()
		nodekeep.Label(t, name, items)
		recordComes(t, name, func(r record.Record) bool {
			for key, value := range items {
				if r.Items()[key] != value {
					return false
				}
			}
			return true
		})
	}
	leaves := func(name string) {
		t.Helper()
		nodekeep.DeleteNode(t, name)
		waitGone(t, name)
	}
	item, two := map[string]string{"rack": "1", worker: ""}, map[string]string{"rack": "2"}
	withPolicy(t, policytest.Manifest(forgetPolicy), func() {
		registers(first, "one", map[string]string{})
		sets(first, map[string]any{"rack": "1", worker: ""})
		leaves(first)

		node := registerAs(t, first, "two")
		machineHas(t, first, "two", map[string]string{})
		nodekeep.WaitEvent(t, first, "MachineChanged")
		assert.NotContains(t, nodekeep.Node(t, first).Labels, "rack", "another machine begins with nothing")
		assert.NotContains(t, node.Annotations[policy.StampAnnotation], "rack")
		sets(first, map[string]any{"rack": "2"})
		leaves(first)

		registers(first, "one", item)
		harness.Eventually(t, func() bool { return eventsOf(t, "default", first, "MachineChanged") > 1 }, 3*settles, 50*time.Millisecond, "this machine has its name again")
		leaves(first)
		registers(first, "two", two)
		leaves(first)

		for machine, name := range map[string]string{"five": second, "seven": third} {
			registers(name, machine, map[string]string{})
			sets(name, map[string]any{"rack": machine})
			leaves(name)
		}
		registers(second, "six", map[string]string{})
		sets(second, map[string]any{"rack": "six"})
		leaves(second)

		registers(third, "five", map[string]string{"rack": "five"}) // under a name that a third machine had
		nodekeep.WaitEvent(t, third, "MachineChanged")
		leaves(third)
		registers(third, "seven", map[string]string{"rack": "seven"})
		leaves(third)
		registers(second, "six", map[string]string{"rack": "six"})
	})
	shown := nodekeep.Command(t, "", "", "show", first).RequireDone(t).Out
	assert.Contains(t, shown, "Earlier machine 1:")
	assert.Contains(t, shown, "system-one")
}

func TestAKubeletThatForgesMachinesOfItsNamePushesOutNoRecordWithALabelThatItMayNotSet(t *testing.T) {
	const name = "forging"
	prev := map[string]string{"dedicated": "ci", worker: ""}
	withPolicy(t, policytest.Manifest(forgetPolicy), func() {
		registerAs(t, name, "forging-one")
		nodekeep.Label(t, name, map[string]any{"dedicated": "ci", worker: ""})
		machineHas(t, name, "forging-one", prev)
		config := nodekeep.Cluster.Kubelet(name)
		config.UserAgent = "kubectl/v1.36.0" // else its labels are not recorded, and nothing is set aside
		kubelet, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		for i := range record.MaxEarlier + 1 {
			nodekeep.DeleteNode(t, name)
			waitGone(t, name)
			forged := registrationAs(name, fmt.Sprint("forged-", i))
			forged.Labels["mine"] = fmt.Sprint(i)
			_, err := kubelet.CoreV1().Nodes().Create(t.Context(), forged, metav1.CreateOptions{})
			require.NoError(t, err)
			machineHas(t, name, fmt.Sprint("forged-", i), map[string]string{"mine": fmt.Sprint(i)})
			assert.NotContains(t, nodekeep.Node(t, name).Labels, worker)
		}
		nodekeep.DeleteNode(t, name)
		waitGone(t, name)
		registerAs(t, name, "forging-one") // a claim is enough under the name that the machine had, as with restore
		machineHas(t, name, "forging-one", prev)
		assert.NotContains(t, nodekeep.Node(t, name).Labels, "mine")
	})
}
