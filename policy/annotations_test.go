package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func loadAnnotations(t *testing.T, keep string) Policy {
	t.Helper()
	p := loadPolicy(t, "labels: {onConflict: restoreStored}\nannotations: ["+keep+"]\n")
	return p
}

func TestAnnotationsThatAPolicyKeeps(t *testing.T) {
	p := loadAnnotations(t, `metal3.io/BareMetalHost, "*.example.com/*", "karpenter.sh/do-not-disrupt", "*.kubernetes.io/*", owner`)
	for annotation, reason := range map[string]string{
		"metal3.io/BareMetalHost":     "annotations has metal3.io/BareMetalHost",
		"a.example.com/x":             "annotations has *.example.com/*",
		"karpenter.sh/do-not-disrupt": "annotations has karpenter.sh/do-not-disrupt",
		"owner":                       "annotations has owner",
		"cluster-autoscaler.kubernetes.io/scale-down-disabled": "annotations has *.kubernetes.io/*",
	} {
		keeps, value := p.Keeps("@" + annotation)
		assert.True(t, keeps, annotation)
		assert.Equal(t, reason, value)
	}
	for _, annotation := range []string{
		"metal3.io/other", "owners", "example.com/x", "volumes.kubernetes.io/controller-managed-attach-detach", "csi.volume.kubernetes.io/nodeid",
		"kubeadm.alpha.kubernetes.io/cri-socket", "node.alpha.kubernetes.io/ttl", "alpha.kubernetes.io/provided-node-ip", "kubectl.kubernetes.io/last-applied-configuration",
	} {
		keeps, _ := p.Keeps("@" + annotation)
		assert.False(t, keeps, annotation)
	}
	keeps, _ := Default().Keeps("@metal3.io/BareMetalHost")
	assert.False(t, keeps, "none is kept unless the policy names it")
	keeps, _ = p.Keeps("a.example.com/x")
	assert.True(t, keeps, "labels have their own list")
}

func TestAnnotationsThatNoPolicyMayKeep(t *testing.T) {
	for _, refused := range []string{
		"etcd.k3s.cattle.io/remove", "k3s.io/internal-ip", "flannel.alpha.coreos.com/public-ip", "projectcalico.org/IPv4Address", "network.cilium.io/ipv4-pod-cidr",
		"io.cilium.network.ipv4-pod-cidr", "k8s.ovn.org/node-subnets", "weave.works/*", "kube-router.io/pod-cidr", "csi.volume.kubernetes.io/nodeid", "csi.volume.kubernetes.io/*",
		"volumes.kubernetes.io/*", "kubeadm.alpha.kubernetes.io/cri-socket", "node.alpha.kubernetes.io/ttl", "cluster.x-k8s.io/machine", "nodekeep.dev/restored",
		"kubectl.kubernetes.io/last-applied-configuration", "machineconfiguration.openshift.io/state", "karpenter.sh/*", "nfd.node.kubernetes.io/feature-labels",
		// What says that one machine has passed a check, or why it was cordoned.
		"readiness.k8s.io/bootstrap-completed-network", "readiness.k8s.io/*", "nidhogg.uswitch.com/first-time-ready", "node-ready/verified", "dgxc.nvidia.com/ready", "skyhook.nvidia.com/status",
		"nodewright.nvidia.com/nodeState_x", "example.com/cordon-reason", "fabric.topograph.run/x", "accelerator.topograph.run/x", "a.kubevirt.io/x", "kubevirt.io/heartbeat", "cattle.io/status",
		"nvidia.com/gpu-driver-upgrade-state", "projectcalico.org/*", "alpha.kubernetes.io/provided-node-ip", "kubeadm.kubernetes.io/x", "rke.cattle.io/x", "medik8s.io/x",
	} {
		_, err := Load([]byte(policytest.Manifest("annotations:\n- owner\n- \""+refused+"\"\n")), DefaultGate)
		require.Error(t, err, refused)
		assert.ErrorContains(t, err, "line 7: spec.annotations[1]: Forbidden: "+refused+" belongs to")
	}
}

func TestPatternsForAnnotationsNameTheirDomain(t *testing.T) {
	var wide []string
	for _, pattern := range []string{"*", "*/*", "**", "*/owner", "own*", "*.io/*", "*io/*", "*kubernetes.io/*", "example*/x", "io/*"} {
		wide = append(wide, `"`+pattern+`"`)
		_, err := Load([]byte(policytest.Manifest("annotations: [\""+pattern+"\"]\n")), DefaultGate)
		require.ErrorContains(t, err, "is too wide", pattern)
	}
	_, err := Load([]byte(policytest.Manifest("annotations: ["+strings.Join(wide, ",")+", volumes.kubernetes.io/x, 'a b', '']\n")), DefaultGate)
	var all FileErrors
	require.ErrorAs(t, err, &all)
	assert.Len(t, all, len(wide)+3, "all at once")
	for _, pattern := range []string{"example.com/*", "*.example.com/rack-*", "a.b.example.com/x*", "owner"} {
		loadAnnotations(t, `"`+pattern+`"`)
	}
}

func TestAnnotationsOfANodeAreBounded(t *testing.T) {
	p := loadAnnotations(t, `"a.io/*"`)
	all := map[string]string{"other": "1", "a.io/large": strings.Repeat("x", record.MaxAnnotationBytes+1), "a.io/bytes": "\xff"}
	for i := range 9 {
		all[fmt.Sprintf("a.io/x%d", i)] = strings.Repeat("x", record.MaxAnnotationBytes)
	}
	kept, tooLarge := p.Annotations().Select(all)
	assert.Equal(t, []string{"a.io/large", "a.io/x7", "a.io/x8"}, tooLarge)
	assert.Len(t, kept, 8)
	assert.Equal(t, "\ufffd", kept["a.io/bytes"])
	total := 0
	for key, value := range kept {
		total += record.AnnotationSize(key, value)
	}
	assert.LessOrEqual(t, total, record.MaxAnnotationsBytes)
}

func TestMissingAnnotations(t *testing.T) {
	p := loadAnnotations(t, `"*.kubernetes.io/*", "a.io/*"`)
	const key = "@cluster-autoscaler.kubernetes.io/scale-down-disabled"
	missing := func(current KeptItems, remembered map[string]string) Restore {
		return p.Restorable(current, KeptItems{Items: remembered}, CreateByKubelet)
	}
	t.Run("they are in the CREATE of a kubelet, which may carry any annotation", func(t *testing.T) {
		r := missing(KeptItems{}, map[string]string{key: "true"})
		assert.Equal(t, map[string]string{key: "true"}, r.Add)
		assert.Empty(t, r.Deferred)
	})
	assert.True(t, AllowedForKubelet(key), "its word about them is no evidence, as of a label that it may set")
	t.Run("what the Node brings wins, with restoreStored too", func(t *testing.T) {
		r := missing(KeptItems{Items: map[string]string{key: "false"}}, map[string]string{key: "true"})
		assert.Equal(t, map[string]Reason{key: Conflict}, r.Withheld)
	})
	t.Run("what no policy keeps is not restored from a record that holds it", func(t *testing.T) {
		r := missing(KeptItems{}, map[string]string{"@volumes.kubernetes.io/x": "1", "@other.io/x": "1"})
		assert.Equal(t, map[string]Reason{"@volumes.kubernetes.io/x": NotKept, "@other.io/x": NotKept}, r.Withheld)
	})
	t.Run("what the object has no room for waits", func(t *testing.T) {
		value := strings.Repeat("x", 8000)
		r := missing(KeptItems{AnnotationBytes: totalAnnotationsLimit - ownReserve - 9000}, map[string]string{"@a.io/1": value, "@a.io/2": value, "label": "1"})
		assert.Equal(t, map[string]string{"@a.io/1": value, "label": "1"}, r.Add)
		assert.Equal(t, map[string]Reason{"@a.io/2": NoRoom}, r.Withheld)
	})
	t.Run("a Node gets no more of them than a record may hold", func(t *testing.T) {
		current, remembered := map[string]string{}, map[string]string{}
		for i := range 5 {
			current[fmt.Sprintf("@a.io/h%d", i)], remembered[fmt.Sprintf("@a.io/r%d", i)] = strings.Repeat("x", 8000), strings.Repeat("x", 8000)
		}
		r := missing(KeptItems{Items: current}, remembered)
		assert.Len(t, r.Add, 3)
		assert.Len(t, r.Withheld, 2)
	})
}
