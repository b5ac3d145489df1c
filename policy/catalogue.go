package policy

// owned is one entry of the built-in catalogue: label keys that another component computes and sets again by
// itself. Restoring one would resurrect what its owner has since dropped, or fight with it.
type owned struct{ pattern, owner string }

// catalogue lists what is left out of records by default. The order does not matter; the owner is for people.
func catalogue() []owned {
	return []owned{
		{"nodekeep.dev/*", "nodekeep itself"},
		{"*.nodekeep.dev/*", "nodekeep itself"},

		{"kubernetes.io/hostname", "the kubelet"},
		{"kubernetes.io/os", "the kubelet"},
		{"kubernetes.io/arch", "the kubelet"},
		{"beta.kubernetes.io/os", "the kubelet"},
		{"beta.kubernetes.io/arch", "the kubelet"},
		{"node.kubernetes.io/windows-build", "the kubelet"},
		{"topology.kubernetes.io/*", "the cloud controller manager"},
		{"failure-domain.beta.kubernetes.io/*", "the cloud controller manager"},
		{"node.kubernetes.io/instance-type", "the cloud controller manager"},
		{"beta.kubernetes.io/instance-type", "the cloud controller manager"},
		{"topology.k8s.aws/*", "the AWS cloud controller manager"},
		{"instance.hetzner.cloud/*", "the Hetzner cloud controller manager"},
		{"topology.gke.io/*", "a CSI driver, through the kubelet"},
		{"topology.*csi.*/*", "a CSI driver, through the kubelet"},
		{"topology.*.csi/*", "a CSI driver, through the kubelet"},

		{"node.cluster.x-k8s.io/*", "Cluster API"},
		{"karpenter.sh/*", "Karpenter"},
		{"*.karpenter.sh/*", "Karpenter"},
		{"karpenter.k8s.aws/*", "Karpenter"},
		{"karpenter.azure.com/*", "Karpenter"},
		{"kops.k8s.io/*", "kops-controller"},

		{"feature.node.kubernetes.io/*", "Node Feature Discovery"},
		{"*.feature.node.kubernetes.io/*", "Node Feature Discovery"},
		{"profile.node.kubernetes.io/*", "Node Feature Discovery"},
		{"nfd.node.kubernetes.io/*", "Node Feature Discovery"},
		{"nvidia.com/gpu.*", "the NVIDIA GPU operator"},
		{"nvidia.com/cuda.*", "the NVIDIA GPU operator"},
		{"nvidia.com/mig.*", "the NVIDIA GPU operator"},
		{"nvidia.com/vgpu.*", "the NVIDIA GPU operator"},
		{"nvidia.com/gfd.timestamp", "the NVIDIA GPU operator"},
		{"amd.com/gpu.*", "the AMD GPU labeller"},
		{"beta.amd.com/gpu.*", "the AMD GPU labeller"},
		{"gpu.intel.com/*", "the Intel device plugins"},
		{"intel.feature.node.kubernetes.io/*", "the Intel device plugins"},

		{"cloud.google.com/*", "GKE"},
		{"iam.gke.io/*", "GKE"},
		{"container.googleapis.com/*", "GKE"},
		{"eks.amazonaws.com/*", "EKS"},
		{"alpha.eksctl.io/*", "eksctl"},
		{"kubernetes.azure.com/*", "AKS"},
		{"agentpool", "AKS"},
		{"storageprofile", "AKS"},
		{"storagetier", "AKS"},
		{"oci.oraclecloud.com/*", "OKE"},
		{"doks.digitalocean.com/*", "DOKS"},
		{"k8s.scaleway.com/*", "Scaleway Kapsule"},
		{"rke.cattle.io/*", "Rancher"},
		{"cattle.io/*", "Rancher"},
		{"plan.upgrade.cattle.io/*", "Rancher's upgrade controller"},
		{"k3s.io/*", "k3s"},
		{"p2p.k3s.cattle.io/*", "k3s"},
		{"node.openshift.io/*", "OpenShift"},
		{"machineconfiguration.openshift.io/*", "OpenShift's machine config operator"},

		{"skyhook.nvidia.com/*", "Skyhook"},
		{"dgxc.nvidia.com/*", "DGX Cloud"},
		{"node-ready/*", "a readiness check"},
		{"readiness.k8s.io/*", "the node readiness controller"},
		{"nidhogg.uswitch.com/*", "Nidhogg"},
		{"projectcalico.org/*", "Calico"},
		{"flannel.alpha.coreos.com/*", "Flannel"},
		{"csi.volume.kubernetes.io/*", "the kubelet"},

		// Everything else under the project's own domains is computed by some controller until shown otherwise.
		{"kubernetes.io/*", "Kubernetes"},
		{"*.kubernetes.io/*", "Kubernetes"},
		{"k8s.io/*", "Kubernetes"},
		{"*.k8s.io/*", "Kubernetes"},
	}
}

// forPeople lists what people set by hand although the catalogue's patterns cover it: it is kept.
func forPeople() []owned {
	return []owned{
		{"node-role.kubernetes.io/*", "people, more often than any other key"},
		{"node.kubernetes.io/exclude-from-external-load-balancers", "kubeadm, once and never again"},
		{"nvidia.com/mig.config", "people: input of the NVIDIA GPU operator"},
		{"nvidia.com/gpu.workload.config", "people: input of the NVIDIA GPU operator"},
		{"nvidia.com/gpu.deploy.operands", "people: input of the NVIDIA GPU operator"},
		{"nvidia.com/device-plugin.config", "people: input of the NVIDIA GPU operator"},
	}
}

// taintCatalogue lists the taints, by key, that other components put on and take off by themselves. Restoring one would
// keep workloads off for a reason that is long gone; a rule that makes one would fight with its owner.
func taintCatalogue() []owned {
	return []owned{
		{"nodekeep.dev/*", "nodekeep itself"},
		{"*.nodekeep.dev/*", "nodekeep itself"},

		{"node.kubernetes.io/*", "the node lifecycle controller"},
		{"node.cloudprovider.kubernetes.io/*", "the cloud controller manager"},
		{"node.cluster.x-k8s.io/*", "Cluster API"},
		{"karpenter.sh/*", "Karpenter"},
		{"*.karpenter.sh/*", "Karpenter"},
		{"ToBeDeletedByClusterAutoscaler", "the cluster autoscaler"},
		{"DeletionCandidateOfClusterAutoscaler", "the cluster autoscaler"},
		{"startup-taint.cluster-autoscaler.kubernetes.io/*", "whoever starts the Node up"},
		{"ignore-taint.cluster-autoscaler.kubernetes.io/*", "whoever starts the Node up"},
		{"*/agent-not-ready", "the agent that is not ready"},
		{"node.cilium.io/*", "Cilium"},
		{"readiness.k8s.io/*", "the node readiness controller"},
		{"feature.node.kubernetes.io/*", "Node Feature Discovery"},
		{"*.feature.node.kubernetes.io/*", "Node Feature Discovery"},
		{"skyhook.nvidia.com", "Skyhook"},
		{"skyhook.nvidia.com/*", "Skyhook"},

		// Put on by drain and repair tools right before a Node goes: just what a record taken at deletion would catch.
		{"aws-node-termination-handler/*", "the AWS node termination handler"},
		{"medik8s.io/*", "Medik8s"},
		{"*.medik8s.io/*", "Medik8s"},
		{"kubevirt.io/drain", "KubeVirt"},
		{"UpdateInProgress", "the OpenShift machine config operator"},
	}
}
