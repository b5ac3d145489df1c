package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// Row by row what other components compute, by default and with a policy that asks for everything.
func TestTheCatalogueLeavesOutWhatOthersOwn(t *testing.T) {
	rows := map[string][]string{
		"what the kubelet sets at every start": {
			"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
			"node.kubernetes.io/windows-build",
		},
		"what the cloud controller manager knows better": {
			"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
			"failure-domain.beta.kubernetes.io/region", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
		},
		"additional labels of a cloud provider": {"topology.k8s.aws/zone-id", "instance.hetzner.cloud/provided-by"},
		"topology of a CSI driver": {
			"topology.ebs.csi.aws.com/zone", "topology.cinder.csi.openstack.org/zone", "topology.gke.io/zone",
			"topology.csi.vmware.com/k8s-zone", "topology.hostpath.csi/node",
		},
		"the role that no operator sets":                        {"kubernetes.io/role"},
		"what keeps a node out of disruptions":                  {"node.kubernetes.io/exclude-disruption"},
		"isolation labels, while the policy does not name them": {"node-restriction.kubernetes.io/tier", "team.node-restriction.kubernetes.io/tier"},
		"Cluster API":              {"node.cluster.x-k8s.io/pool"},
		"Karpenter":                {"karpenter.sh/nodepool", "karpenter.sh/capacity-type", "karpenter.sh/registered", "karpenter.sh/initialized", "karpenter.sh/do-not-sync-taints", "compatibility.karpenter.sh/v1", "karpenter.k8s.aws/instance-cpu", "karpenter.azure.com/sku-name"},
		"Node Feature Discovery":   {"feature.node.kubernetes.io/cpu-cpuid.AVX", "vendor.feature.node.kubernetes.io/x", "profile.node.kubernetes.io/x", "nfd.node.kubernetes.io/master.version"},
		"the NVIDIA GPU operator":  {"nvidia.com/gpu.count", "nvidia.com/gpu.product", "nvidia.com/gpu.present", "nvidia.com/cuda.driver.major", "nvidia.com/mig.capable", "nvidia.com/mig.config.state", "nvidia.com/gfd.timestamp", "nvidia.com/gpu.deploy.driver", "nvidia.com/vgpu.present"},
		"other vendors' labellers": {"amd.com/gpu.family", "beta.amd.com/gpu.family", "gpu.intel.com/cards", "intel.feature.node.kubernetes.io/sgx"},
		"GKE":                      {"cloud.google.com/gke-nodepool", "iam.gke.io/gke-metadata-server-enabled", "container.googleapis.com/instance_id"},
		"EKS and eksctl":           {"eks.amazonaws.com/nodegroup", "alpha.eksctl.io/cluster-name"},
		"AKS":                      {"kubernetes.azure.com/scalesetpriority", "agentpool", "storageprofile", "storagetier"},
		"other managed pools":      {"oci.oraclecloud.com/fault-domain", "doks.digitalocean.com/node-pool", "k8s.scaleway.com/pool"},
		"kops":                     {"kops.k8s.io/instancegroup"},
		"Rancher and k3s":          {"rke.cattle.io/machine", "cattle.io/os", "plan.upgrade.cattle.io/server", "k3s.io/hostname", "p2p.k3s.cattle.io/enabled"},
		"OpenShift":                {"node.openshift.io/os_id", "machineconfiguration.openshift.io/role"},
		"readiness tools, which would let a fresh machine through": {"skyhook.nvidia.com/status", "dgxc.nvidia.com/ready", "node-ready/verified", "readiness.k8s.io/bootstrap-completed-x", "nidhogg.uswitch.com/first-time-ready", "nodekeep.dev/restored"},
		"NVSentinel, whose state is of one machine": {
			"k8saas.nvidia.com/cordon-by", "k8saas.nvidia.com/cordon-reason", "k8saas.nvidia.com/cordon-timestamp", "example.com/cordon-by",
			"k8saas.nvidia.com/uncordon-by", "k8saas.nvidia.com/uncordon-reason", "k8saas.nvidia.com/uncordon-timestamp", "dgxc.nvidia.com/nvsentinel-state",
		},
		"NodeWright, which was Skyhook": {"nodewright.nvidia.com/status_gpu", "nodewright.nvidia.com/ignore"},
		"Topograph":                     {"fabric.topograph.run/tier-0", "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"},
		"KubeVirt": {
			"kubevirt.io/schedulable", "kubevirt.io/ksm-enabled", "cpu-feature.node.kubevirt.io/vmx", "cpu-model.node.kubevirt.io/EPYC", "cpu-model-migration.node.kubevirt.io/EPYC",
			"cpumanager", "cpu-timer.node.kubevirt.io/tsc-frequency", "hyperv.node.kubevirt.io/vpindex", "host-model-cpu.node.kubevirt.io/EPYC", "scheduling.node.kubevirt.io/tsc-frequency-1",
		},
		"what is installed or held on one machine": {
			"katacontainers.io/kata-runtime", "cc-preinstall/done", "odigos.io/odiglet-oss-installed", "kwasm.sh/kwasm-provisioned", "network.nvidia.com/operator.mofed.wait",
			"resource.nvidia.com/computeDomain", "kube-vip.io/has-ip", "kubip_assigned", "vpc.amazonaws.com/has-trunk-attached", "vpc.amazonaws.com/eniConfig", "k8s.amazonaws.com/eniConfig",
			"node.csi.alibabacloud.com/disktype.cloud_essd", "example.com/tool-installed", "example.com/tool-provisioned",
		},
		"marks of a machine that ends":                      {"node.kubernetes.io/exclude-from-external-load-balancers", "aws-node-termination-handler/action", "autoscaling.cast.ai/draining", "ektopistis.io/drain"},
		"Alibaba and OpenShift":                             {"alibabacloud.com/nodepool-id", "ack.aliyun.com", "machine.openshift.io/interruptible-instance", "sriovnetwork.openshift.io/device-plugin"},
		"upgrades of drivers":                               {"nvidia.com/gpu-driver-upgrade-state", "nvidia.com/ofed-driver-upgrade-state"},
		"what CNI, CSI and controllers keep in annotations": {"volumes.kubernetes.io/keep-terminated-pod-volumes", "kubeadm.alpha.kubernetes.io/cri-socket", "projectcalico.org/IPv4Address", "flannel.alpha.coreos.com/public-ip", "csi.volume.kubernetes.io/nodeid", "alpha.kubernetes.io/provided-node-ip", "node.alpha.kubernetes.io/ttl"},
		"whatever else ends in kubernetes.io or k8s.io":     {"kubernetes.io/x", "brand.new.kubernetes.io/x", "k8s.io/x", "brand.new.k8s.io/x", "app.kubernetes.io/name"},
	}
	ok := policyWith(t, `{keep: ["*", "*/*", "*.kubernetes.io/*", "*.k8s.io/*"]}`)
	for name, keys := range rows {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				keeps, reason := Default().Keeps(key)
				assert.False(t, keeps, "%s is kept because %s", key, reason)
				keeps, reason = ok.Keeps(key)
				assert.False(t, keeps, "%s is kept because %s, when the policy asks for everything", key, reason)
				keeps, reason = policyWith(t, `{keep: [`+key+`]}`).Keeps(key)
				assert.True(t, keeps, "%s is left out because %s, when the policy names it", key, reason)
			}
		})
	}
}

func TestTheCatalogueLeavesTheLabelsOfOperatorsAlone(t *testing.T) {
	rows := map[string][]string{
		"roles, which operators set more often than any other key": {"node-role.kubernetes.io/worker", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/anything"},
		"what the NVIDIA GPU operator reads":                       {"nvidia.com/mig.config", "nvidia.com/gpu.workload.config", "nvidia.com/gpu.deploy.operands", "nvidia.com/device-plugin.config"},
		"names that look like a vendor's":                          {"nvidia.com/gpu", "gpu.count", "amd.com/gpu", "accelerator", "hardware.tier", "node-type", "nvidia.com/gpu-driver-upgrade.skip", "topograph.run/x", "k8saas.nvidia.com/ManagedByNVSentinel", "cordon-by", "mykubevirt.io/x"},
		"names of their own":                                       {"dedicated", "team.owner", "disktype", "example.com/rack", "topology.example.com/rack", "node-role.example.com/worker"},
		"domains that merely look like one of the catalogue":       {"mykarpenter.sh/x", "karpenter.sh.example.com/x", "xk8s.io/x", "notkubernetes.io/x", "x-k8s.io/y", "kubernetes.io.example.com/x"},
		"names that merely look like one of the catalogue":         {"agentpool2", "example.com/agentpool", "kubernetes.io", "hostname"},
	}
	for name, keys := range rows {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				keeps, reason := Default().Keeps(key)
				assert.True(t, keeps, "%s is left out because %s", key, reason)
			}
		})
	}
}

// Row by row the taints that others add and remove by themselves, by default and with a policy that asks for everything.
func TestTheCatalogueLeavesOutTaintsOfOthers(t *testing.T) {
	rows := map[string][]string{
		"nodekeep itself":                            {"nodekeep.dev/x", "sub.nodekeep.dev/x"},
		"what the node lifecycle controller adds":    {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/network-unavailable"},
		"what a repair tool puts there":              {"node.kubernetes.io/out-of-service"},
		"the kubelet and the cloud controller":       {"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"},
		"Cluster API":                                {"node.cluster.x-k8s.io/uninitialized", "node.cluster.x-k8s.io/outdated-revision"},
		"Karpenter":                                  {"karpenter.sh/disrupted", "karpenter.sh/unregistered", "compatibility.karpenter.sh/x"},
		"the cluster autoscaler":                     {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"},
		"startup taints that the autoscaler knows":   {"startup-taint.cluster-autoscaler.kubernetes.io/x", "ignore-taint.cluster-autoscaler.kubernetes.io/x"},
		"agents that are not ready":                  {"ebs.csi.aws.com/agent-not-ready", "efs.csi.aws.com/agent-not-ready", "node.cilium.io/agent-not-ready", "example.com/agent-not-ready"},
		"Cilium":                                     {"node.cilium.io/x"},
		"the node readiness controller":              {"readiness.k8s.io/network"},
		"Node Feature Discovery":                     {"feature.node.kubernetes.io/x", "vendor.feature.node.kubernetes.io/x"},
		"Skyhook":                                    {"skyhook.nvidia.com", "skyhook.nvidia.com/x"},
		"NodeWright":                                 {"nodewright.nvidia.com", "nodewright.nvidia.com/x"},
		"drain and repair tools, before a Node goes": {"aws-node-termination-handler/spot-itn", "medik8s.io/remediation", "remediation.medik8s.io/x", "kubevirt.io/drain", "UpdateInProgress", "AggregatedNodeHealth", "cloud.google.com/impending-node-termination", "remediator.example.com/reboot", "example.com/preempt", "autoscaling.cast.ai/draining", "ektopistis.io/drain"},
	}
	ok := policyOf(t, `{keep: ["*", "*/*", "*.kubernetes.io/*", "karpenter.sh/*"]}`)
	for name, keys := range rows {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				for _, effect := range effects() {
					item := key + ":" + string(effect)
					keeps, reason := Default().Keeps(item)
					assert.False(t, keeps, "%s is kept because %s", item, reason)
					assert.Contains(t, reason, "it belongs to ")
					keeps, reason = ok.Keeps(item)
					assert.False(t, keeps, "%s is kept because %s, when the policy asks for everything", item, reason)
					keeps, reason = policyOf(t, `{keep: [`+key+`]}`).Keeps(item)
					assert.True(t, keeps, "%s is left out because %s, when the policy names it", item, reason)
				}
				_, err := Load([]byte(policytest.Manifest(`taints: {rules: [{selector: a, taint: "`+key+`:NoSchedule"}]}`)), DefaultGate)
				assert.ErrorContains(t, err, "a rule cannot make it: it belongs to ", "a rule would fight with the owner of %s", key)
			}
		})
	}
}

func TestTheCatalogueLeavesPeoplesTaintsAlone(t *testing.T) {
	rows := map[string][]string{
		"what kubeadm sets once and never again":             {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"},
		"other roles":                                        {"node-role.kubernetes.io/worker", "node-role.kubernetes.io/infra"},
		"names of their own":                                 {"dedicated", "maintenance", "nvidia.com/gpu", "example.com/wall", "agentpool", "drain", "preempt", "cloud.google.com/gke-spot", "remediator"},
		"domains that merely look like one of the catalogue": {"mykarpenter.sh/x", "karpenter.sh.example.com/x", "mynode.kubernetes.io/x", "node.kubernetes.io.example.com/x", "notmedik8s.io/x", "mynodekeep.dev/x"},
		"names that merely look like one of the catalogue":   {"agent-not-ready", "example.com/agent-not-ready-yet", "example.com/UpdateInProgress", "UpdateInProgress2", "kubevirt.io/drained", "example.com/skyhook.nvidia.com", "karpenter.sh"},
		"isolation keys, which mean nothing in a taint":      {"node-restriction.kubernetes.io/tier", "team.node-restriction.kubernetes.io/tier"},
	}
	for name, keys := range rows {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				for _, effect := range effects() {
					keeps, reason := Default().Keeps(key + ":" + string(effect))
					assert.True(t, keeps, "%s is left out because %s", key, reason)
				}
				_, err := Load([]byte(policytest.Manifest(`taints: {rules: [{selector: a, taint: "`+key+`:NoSchedule"}]}`)), DefaultGate)
				assert.NoError(t, err, "a rule may make what operators make")
			}
		})
	}
}

func TestTheCatalogueIsWellFormed(t *testing.T) {
	for section, all := range map[string]owners{"labels": labelOwners(), "taints": taintOwners()} {
		seen := map[string]bool{}
		for _, owner := range all {
			assert.Empty(t, owner.keys.validate(field.NewPath(section)))
			for _, pattern := range owner.keys {
				assert.False(t, seen[pattern], "%s: %s is there twice", section, pattern)
				seen[pattern] = true
			}
		}
	}
}
