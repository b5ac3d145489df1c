package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
)

// owners says which component owns a key: the first whose patterns match it. Operators own the keys of an entry without a name.
type owners []struct {
	name string // for users
	keys patterns
}

// lookup returns the component that owns a key.
func (o owners) lookup(key string) (name string, owned bool) {
	for _, owner := range o {
		if _, ok := owner.keys.match(key); ok {
			return owner.name, owner.name != ""
		}
	}
	return "", false
}

// catalogue says who owns which keys: the first entry whose pattern matches the key. Every label of every Node is looked up here.
type catalogue struct {
	byFirst   map[byte][]entry // the entries that a key can match which begins with this character
	wildcards []entry          // those that any other key can match
}

// entry is one pattern of a catalogue.
type entry struct {
	pattern string
	owner   string // empty: operators set the key
	kind    kindOfKey
}

// kindOfKey says what a catalogued key is about.
type kindOfKey int

const (
	computed kindOfKey = iota // a component sets it again by itself, and in some clusters operators set it
	state                     // what one machine is, or what it has passed: always left out, because the next machine would inherit it
	mark                      // a component marks a machine with it whose end is near; operators set it, too
)

// newCatalogue returns a catalogue of these parts, in this order. Of keys that components compute or mark, the managedFields of a Node show who set
// them.
func newCatalogue(operators, states, marks, components owners) catalogue {
	var all []entry
	for _, part := range []struct {
		owners owners
		kind   kindOfKey
	}{{operators, computed}, {states, state}, {marks, mark}, {components, computed}} {
		for _, owner := range part.owners {
			for _, pattern := range owner.keys {
				all = append(all, entry{pattern, owner.name, part.kind})
			}
		}
	}
	c := catalogue{byFirst: map[byte][]entry{}}
	for _, e := range all {
		c.byFirst[e.pattern[0]] = nil
	}
	delete(c.byFirst, '*')
	for _, e := range all {
		if e.pattern[0] == '*' {
			c.wildcards = append(c.wildcards, e)
		}
		for first := range c.byFirst {
			if e.pattern[0] == '*' || e.pattern[0] == first {
				c.byFirst[first] = append(c.byFirst[first], e)
			}
		}
	}
	return c
}

// owner returns the component that owns a key, and what the key is about.
func (c catalogue) owner(key string) (owner string, owned bool, kind kindOfKey) {
	entries := c.wildcards
	if key != "" {
		if candidates, ok := c.byFirst[key[0]]; ok {
			entries = candidates
		}
	}
	for i := range entries {
		if e := &entries[i]; classify.Match(e.pattern, key) {
			return e.owner, e.owner != "", e.kind
		}
	}
	return "", false, computed
}

// setsAgain returns the component that sets a key again by itself, or removes it again.
func (c catalogue) setsAgain(key string) (owner string, owned bool) {
	owner, owned, kind := c.owner(key)
	return owner, owned && kind != mark
}

// labelCatalogue names components that compute labels and set them again by themselves. To restore such a label would bring back
// what its owner has since removed, or fight with it.
func labelCatalogue() catalogue {
	operators := owners{{"", patterns{
		"node-role.kubernetes.io/*",
		// What the NVIDIA GPU operator reads.
		"nvidia.com/mig.config", "nvidia.com/gpu.workload.config", "nvidia.com/gpu.deploy.operands", "nvidia.com/device-plugin.config",
	}}}
	return newCatalogue(operators, labelStates(), labelMarks(), labelOwners())
}

// labelMarks returns keys by which drainers take a machine out of use, right before they delete its Node. Operators and the command kubeadm set
// them to stay.
func labelMarks() owners {
	return owners{{"the component that drains the Node", patterns{corev1.LabelNodeExcludeBalancers}}}
}

// drainers returns what components that drain Nodes call themselves in the value of a mark. Some of them call kubectl, so managedFields show
// kubectl.
func drainers() patterns {
	return patterns{"karpenter*", "*termination-handler", "*lifecycle-manager", "*update-handler", "*autoscaler", "*descheduler", "*drain*"}
}

func labelStates() owners {
	return owners{
		{"nodekeep itself", patterns{"nodekeep.dev/*", "*.nodekeep.dev/*"}},
		{"the kubelet", patterns{"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}},
		{"the kubelet", patterns{"node.kubernetes.io/windows-build", "csi.volume.kubernetes.io/*"}},
		{"Karpenter", patterns{"karpenter.sh/registered", "karpenter.sh/initialized"}},
		// Scripts in its images call kubectl, so managedFields show kubectl.
		{"the NVIDIA GPU operator", patterns{"nvidia.com/gpu.deploy.*", "nvidia.com/*.state", "nvidia.com/*-driver-upgrade-state"}},
		{"NVSentinel", patterns{"*/cordon-by", "*/cordon-reason", "*/cordon-timestamp", "*/uncordon-by", "*/uncordon-reason", "*/uncordon-timestamp"}},
		{"Skyhook", patterns{"skyhook.nvidia.com/*"}},
		{"NodeWright", patterns{"nodewright.nvidia.com/*"}}, // Skyhook's new name
		{"DGX Cloud", patterns{"dgxc.nvidia.com/*"}},
		{"Topograph", patterns{"fabric.topograph.run/*", "accelerator.topograph.run/*"}},
		{"KubeVirt", patterns{"kubevirt.io/*", "*.kubevirt.io/*", "cpumanager"}},
		// What is installed, loaded or held on this machine. The installers are scripts that call kubectl.
		{"Kata Containers", patterns{"katacontainers.io/*"}},
		{"Confidential Containers", patterns{"cc-preinstall/*", "confidentialcontainers.org/*"}},
		{"Odigos", patterns{"odigos.io/*installed"}},
		{"KWasm", patterns{"kwasm.sh/*"}},
		{"the NVIDIA network operator", patterns{"network.nvidia.com/operator.*"}},
		{"the NVIDIA driver for dynamic resources", patterns{"resource.nvidia.com/*"}},
		{"kube-vip", patterns{"kube-vip.io/*"}},
		{"kubeIP", patterns{"kubip_assigned", "kubeip.com/*"}},
		{"the AWS VPC resource controller", patterns{"vpc.amazonaws.com/has-*"}},
		// Marks of a machine that ends, in keys of their own.
		{"the AWS node termination handler", patterns{"aws-node-termination-handler/*"}},
		{"CAST AI", patterns{"autoscaling.cast.ai/draining"}},
		{"Ektopistis", patterns{"ektopistis.io/drain"}},
		// Rancher is a client of operators, too, but these are its own.
		{"Rancher", patterns{"rke.cattle.io/*", "cattle.io/*"}},
		{"Rancher's upgrade controller", patterns{"plan.upgrade.cattle.io/*"}},
		{"a readiness check", patterns{"node-ready/*"}},
		{"the node readiness controller", patterns{"readiness.k8s.io/*"}},
		{"Nidhogg", patterns{"nidhogg.uswitch.com/*"}},
	}
}

func labelOwners() owners {
	return owners{
		{"the cloud controller manager", patterns{"topology.kubernetes.io/*", "failure-domain.beta.kubernetes.io/*"}},
		{"the cloud controller manager", patterns{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}},
		{"the AWS cloud controller manager", patterns{"topology.k8s.aws/*"}},
		{"the Hetzner cloud controller manager", patterns{"instance.hetzner.cloud/*"}},
		{"the Alibaba cloud controller manager", patterns{"alibabacloud.com/*", "*.alibabacloud.com/*", "ack.aliyun.com"}},
		{"the AWS network plugin", patterns{"vpc.amazonaws.com/*", "k8s.amazonaws.com/eniConfig"}},
		{"a CSI driver, through the kubelet", patterns{"topology.gke.io/*", "topology.*csi.*/*", "topology.*.csi/*"}},
		{"a CSI driver", patterns{"node.csi.*/*"}},

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
		{"k3s", patterns{"k3s.io/*", "p2p.k3s.cattle.io/*"}},
		{"OpenShift", patterns{"node.openshift.io/*"}},
		{"OpenShift's machine API", patterns{"machine.openshift.io/*"}},
		{"the SR-IOV network operator", patterns{"sriovnetwork.openshift.io/*"}},
		{"OpenShift's machine config operator", patterns{"machineconfiguration.openshift.io/*"}},

		{"Calico", patterns{"projectcalico.org/*"}},
		{"Flannel", patterns{"flannel.alpha.coreos.com/*"}},

		{"the component that installs it", patterns{"*installed", "*-provisioned"}},

		// Everything else under the project's own domains is computed by some controller until shown otherwise.
		{"Kubernetes", patterns{"kubernetes.io/*", "*.kubernetes.io/*", "k8s.io/*", "*.k8s.io/*"}},
	}
}

// annotationOwner names the component whose annotation is a command, or the state of one machine or of one object. No policy keeps it. A
// component that writes the state of one machine to a label does so in annotations, too.
func annotationOwner(annotation string) (owner string, owned bool) {
	operators := owners{{"", patterns{"karpenter.sh/do-not-disrupt", "projectcalico.org/ASNumber", "projectcalico.org/RouteReflectorClusterID"}}}
	return slices.Concat(operators, annotationStates(), labelStates()).lookup(annotation)
}

func annotationStates() owners {
	return owners{
		{"kubectl", patterns{"kubectl.kubernetes.io/*"}},
		{"the kubelet", patterns{"volumes.kubernetes.io/*", "alpha.kubernetes.io/*"}},
		{"the node controllers", patterns{"node.alpha.kubernetes.io/*"}},
		{"kubeadm", patterns{"kubeadm.alpha.kubernetes.io/*", "kubeadm.kubernetes.io/*"}},

		{"k3s", patterns{"k3s.io/*", "*.k3s.cattle.io/*"}}, // etcd.k3s.cattle.io/remove takes a member out of etcd
		{"RKE2", patterns{"rke2.io/*", "*.rke2.cattle.io/*"}},
		{"Rancher", patterns{"rke.cattle.io/*", "cattle.io/*"}},
		{"Rancher's upgrade controller", patterns{"plan.upgrade.cattle.io/*"}},
		{"Talos", patterns{"talos.dev/*", "*.talos.dev/*"}},
		{"Cluster API", patterns{"cluster.x-k8s.io/*", "*.cluster.x-k8s.io/*"}},
		{"OpenShift's machine API", patterns{"machine.openshift.io/*"}},
		{"OpenShift's machine config operator", patterns{"machineconfiguration.openshift.io/*"}},
		{"the SR-IOV network operator", patterns{"sriovnetwork.openshift.io/*"}},
		{"Karpenter", patterns{"karpenter.sh/*", "*.karpenter.sh/*", "karpenter.k8s.aws/*", "karpenter.azure.com/*"}},
		{"GKE", patterns{"container.googleapis.com/*", "node.gke.io/*", "networking.gke.io/*"}},

		{"Flannel", patterns{"flannel.alpha.coreos.com/*"}},
		{"Calico", patterns{"projectcalico.org/*"}},
		{"Cilium", patterns{"network.cilium.io/*", "io.cilium.network.*"}},
		{"OVN-Kubernetes", patterns{"k8s.ovn.org/*"}},
		{"Kube-OVN", patterns{"ovn.kubernetes.io/*", "*.ovn.kubernetes.io/*"}},
		{"Weave", patterns{"weave.works/*", "*.weave.works/*"}}, // kured as well
		{"kube-router", patterns{"kube-router.io/pod-cidr*"}},
		{"Antrea", patterns{"node.antrea.io/*"}},
		{"Multus", patterns{"k8s.v1.cni.cncf.io/*"}},

		{"Node Feature Discovery", patterns{"nfd.node.kubernetes.io/*", "*.nfd.node.kubernetes.io/*"}},
		{"the Flatcar update operator", patterns{"flatcar-linux-update.v1.flatcar-linux.net/*"}},
		{"the AWS node termination handler", patterns{"aws-node-termination-handler/*"}},
		{"Medik8s", patterns{"medik8s.io/*", "*.medik8s.io/*"}},
	}
}

// taintOwners returns components that add and remove taints by themselves. A restored taint of theirs would keep workloads off for a reason
// that no longer exists. A rule that makes one would fight with its owner.
func taintOwners() owners {
	return slices.Concat(taintEnds(), owners{
		{"nodekeep itself", patterns{"nodekeep.dev/*", "*.nodekeep.dev/*"}},

		{"the node lifecycle controller", patterns{"node.kubernetes.io/*"}},
		{"the cloud controller manager", patterns{"node.cloudprovider.kubernetes.io/*"}},
		{"Cluster API", patterns{"node.cluster.x-k8s.io/*"}},
		{"Karpenter", patterns{"karpenter.sh/*", "*.karpenter.sh/*"}},
		{"the cluster autoscaler", patterns{"DeletionCandidateOfClusterAutoscaler"}},
		{"the component that starts the Node up", startupTaints()},
		{"the agent that is not ready", patterns{"*/agent-not-ready"}},
		{"Cilium", patterns{"node.cilium.io/*"}},
		{"the node readiness controller", readinessTaints()},
		{"Node Feature Discovery", patterns{"feature.node.kubernetes.io/*", "*.feature.node.kubernetes.io/*"}},
		{"Skyhook", patterns{"skyhook.nvidia.com", "skyhook.nvidia.com/*"}},
		{"NodeWright", patterns{"nodewright.nvidia.com", "nodewright.nvidia.com/*"}},
	})
}

// Ends reports whether a taint of that key says that its Node is being taken away.
func (p Policy) Ends(taint string) bool {
	_, ok, _ := p.ends.owner(taint)
	return ok
}

// taintEnds returns components that drain and repair Nodes. They add these taints right before a Node is deleted, and a record taken at the
// deletion would have them.
func taintEnds() owners {
	return owners{
		{"the cluster autoscaler", patterns{"ToBeDeletedByClusterAutoscaler"}},
		{"Karpenter", patterns{"karpenter.sh/disrupted", "karpenter.sh/disruption"}},
		{"the cloud controller manager", patterns{"node.cloudprovider.kubernetes.io/shutdown"}},
		{"the component that repairs the Node", patterns{corev1.TaintNodeOutOfService}},
		{"the AWS node termination handler", patterns{"aws-node-termination-handler/*"}},
		{"GKE", patterns{"cloud.google.com/impending-node-termination"}},
		{"CAST AI", patterns{"autoscaling.cast.ai/draining"}},
		{"Ektopistis", patterns{"ektopistis.io/drain"}},
		{"a remediator", patterns{"remediator.*"}},
		{"the component that preempts the Node", patterns{"*/preempt"}},
		{"NVSentinel", patterns{"AggregatedNodeHealth"}},
		{"Medik8s", patterns{"medik8s.io/*", "*.medik8s.io/*"}},
		{"KubeVirt", patterns{"kubevirt.io/drain"}},
		{"the OpenShift machine config operator", patterns{"UpdateInProgress"}},
	}
}
