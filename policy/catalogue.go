package policy

// owners says which component owns a key: the first whose patterns match it.
type owners []struct {
	name string // for users; empty: an operator's own decision
	keys patterns
}

// of is the component that owns a key.
func (o owners) of(key string) (name string, owned bool) {
	for _, owner := range o {
		if _, is := owner.keys.match(key); is {
			return owner.name, owner.name != ""
		}
	}
	return "", false
}

// labelOwners are components that compute labels and set them again by themselves. To restore such a label would bring back
// what its owner has since removed, or fight with it.
func labelOwners() owners {
	return owners{
		// Operators set these, though patterns below cover them.
		{"", patterns{"node-role.kubernetes.io/*"}},
		{"", patterns{"node.kubernetes.io/exclude-from-external-load-balancers"}}, // kubeadm sets it once and never again
		// What the NVIDIA GPU operator reads.
		{"", patterns{"nvidia.com/mig.config", "nvidia.com/gpu.workload.config", "nvidia.com/gpu.deploy.operands", "nvidia.com/device-plugin.config"}},

		{"nodekeep itself", patterns{"nodekeep.dev/*", "*.nodekeep.dev/*"}},

		{"the kubelet", patterns{"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}},
		{"the kubelet", patterns{"node.kubernetes.io/windows-build", "csi.volume.kubernetes.io/*"}},
		{"the cloud controller manager", patterns{"topology.kubernetes.io/*", "failure-domain.beta.kubernetes.io/*"}},
		{"the cloud controller manager", patterns{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}},
		{"the AWS cloud controller manager", patterns{"topology.k8s.aws/*"}},
		{"the Hetzner cloud controller manager", patterns{"instance.hetzner.cloud/*"}},
		{"a CSI driver, through the kubelet", patterns{"topology.gke.io/*", "topology.*csi.*/*", "topology.*.csi/*"}},

		{"Cluster API", patterns{"node.cluster.x-k8s.io/*"}},
		{"Karpenter", patterns{"karpenter.sh/*", "*.karpenter.sh/*", "karpenter.k8s.aws/*", "karpenter.azure.com/*"}},
		{"kops-controller", patterns{"kops.k8s.io/*"}},

		{"the Intel device plugins", patterns{"gpu.intel.com/*", "intel.feature.node.kubernetes.io/*"}},
		{"Node Feature Discovery", patterns{"feature.node.kubernetes.io/*", "*.feature.node.kubernetes.io/*", "profile.node.kubernetes.io/*", "nfd.node.kubernetes.io/*"}},
		{"the NVIDIA GPU operator", patterns{"nvidia.com/gpu.*", "nvidia.com/cuda.*", "nvidia.com/mig.*", "nvidia.com/vgpu.*", "nvidia.com/gfd.timestamp"}},
		{"the AMD GPU labeller", patterns{"amd.com/gpu.*", "beta.amd.com/gpu.*"}},

		{"GKE", patterns{"cloud.google.com/*", "iam.gke.io/*", "container.googleapis.com/*"}},
		{"EKS", patterns{"eks.amazonaws.com/*"}},
		{"eksctl", patterns{"alpha.eksctl.io/*"}},
		{"AKS", patterns{"kubernetes.azure.com/*", "agentpool", "storageprofile", "storagetier"}},
		{"OKE", patterns{"oci.oraclecloud.com/*"}},
		{"DOKS", patterns{"doks.digitalocean.com/*"}},
		{"Scaleway Kapsule", patterns{"k8s.scaleway.com/*"}},
		{"Rancher", patterns{"rke.cattle.io/*", "cattle.io/*"}},
		{"Rancher's upgrade controller", patterns{"plan.upgrade.cattle.io/*"}},
		{"k3s", patterns{"k3s.io/*", "p2p.k3s.cattle.io/*"}},
		{"OpenShift", patterns{"node.openshift.io/*"}},
		{"OpenShift's machine config operator", patterns{"machineconfiguration.openshift.io/*"}},

		{"Skyhook", patterns{"skyhook.nvidia.com/*"}},
		{"DGX Cloud", patterns{"dgxc.nvidia.com/*"}},
		{"a readiness check", patterns{"node-ready/*"}},
		{"the node readiness controller", patterns{"readiness.k8s.io/*"}},
		{"Nidhogg", patterns{"nidhogg.uswitch.com/*"}},
		{"Calico", patterns{"projectcalico.org/*"}},
		{"Flannel", patterns{"flannel.alpha.coreos.com/*"}},

		// Everything else under the project's own domains is computed by some controller until shown otherwise.
		{"Kubernetes", patterns{"kubernetes.io/*", "*.kubernetes.io/*", "k8s.io/*", "*.k8s.io/*"}},
	}
}

// taintOwners are components that add and remove taints by themselves. To restore such a taint would keep workloads off for a reason
// that is long gone; a rule that makes one would fight with its owner.
func taintOwners() owners {
	return owners{
		{"nodekeep itself", patterns{"nodekeep.dev/*", "*.nodekeep.dev/*"}},

		{"the node lifecycle controller", patterns{"node.kubernetes.io/*"}},
		{"the cloud controller manager", patterns{"node.cloudprovider.kubernetes.io/*"}},
		{"Cluster API", patterns{"node.cluster.x-k8s.io/*"}},
		{"Karpenter", patterns{"karpenter.sh/*", "*.karpenter.sh/*"}},
		{"the cluster autoscaler", patterns{"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"}},
		{"whoever starts the Node up", patterns{"startup-taint.cluster-autoscaler.kubernetes.io/*", "ignore-taint.cluster-autoscaler.kubernetes.io/*"}},
		{"the agent that is not ready", patterns{"*/agent-not-ready"}},
		{"Cilium", patterns{"node.cilium.io/*"}},
		{"the node readiness controller", patterns{"readiness.k8s.io/*"}},
		{"Node Feature Discovery", patterns{"feature.node.kubernetes.io/*", "*.feature.node.kubernetes.io/*"}},
		{"Skyhook", patterns{"skyhook.nvidia.com", "skyhook.nvidia.com/*"}},

		// Drain and repair tools add these right before a Node is deleted: just what a record taken at deletion would catch.
		{"the AWS node termination handler", patterns{"aws-node-termination-handler/*"}},
		{"Medik8s", patterns{"medik8s.io/*", "*.medik8s.io/*"}},
		{"KubeVirt", patterns{"kubevirt.io/drain"}},
		{"the OpenShift machine config operator", patterns{"UpdateInProgress"}},
	}
}
