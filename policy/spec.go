package policy

import (
	"encoding/json"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/verify"
)

// Every field of a policy is optional, unless its comment says otherwise.
// +kubebuilder:validation:Optional

// What a manifest of a policy says of itself.
const (
	apiVersion = "nodekeep.dev/v1alpha1"
	kind       = "NodePolicy"
	name       = "default"
)

// Spec is what a NodePolicy says. A field that is left out has its default. The comments of the fields are what `kubectl explain` shows.
// With the markers they are the one source of the schema.
type Spec struct {
	// Which labels are kept and how they are restored, and the rules for labels.
	Labels Labels `json:"labels"`
	// Which taints are kept, and which ones are added.
	Taints Taints `json:"taints"`
	// Which annotations are kept: keys, or patterns that name a domain, such as "metal3.io/BareMetalHost" and "*.example.com/*". It is for
	// annotations that operators set. Without one, none is kept.
	// +kubebuilder:validation:items:MinLength=1
	Annotations []string `json:"annotations"`
	// What becomes of a cordon (spec.unschedulable) when a Node registers: ignore (the default) or keep. keep is for machines that operators cordon
	// for a repair, and that are rebuilt meanwhile.
	Cordon OnCordon `json:"cordon"`
	// What happens where another machine has the name of a Node, or a machine has another name.
	Machine Machine `json:"machine"`
	// Which Nodes take workloads only after checks have passed.
	Verify verify.Settings `json:"verify"`
	// Which labels may have which values, and who may set them.
	Governance governance.Settings `json:"governance"`
	// Sources of facts for rules.
	// +kubebuilder:validation:MaxItems=8
	Inventory []inventory.Entry `json:"inventory"`
	// How long the record of a deleted Node is kept; 720h by default. 0 is for ever. Longer is for machines that are away for months.
	Retention Retention `json:"retention"`
	// The hash of rules and migrations that are accepted although they remove or change labels on many Nodes. Status and Event name the hash.
	// That of other rules accepts nothing.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{12}|none)?$`
	Accept string `json:"accept"`
}

// Labels is the section labels.
type Labels struct {
	// Patterns over whole keys, such as "example.com/*", "*.example.com/*" and "disktype". A key that is named without a wildcard is kept,
	// whichever client sets it. The default is "*".
	// +kubebuilder:validation:items:MinLength=1
	Keep []string `json:"keep"`
	// Patterns over keys that are not kept, such as those of a tool that sets them again. They win over keep.
	// +kubebuilder:validation:items:MinLength=1
	Ignore []string `json:"ignore"`
	// Patterns over keys that capture adds behind the gate when a kubelet registers its Node. It is for clusters whose admission policies deny
	// them in the CREATE. Without one, none.
	// +kubebuilder:validation:items:MinLength=1
	Defer []string `json:"defer"`
	// Patterns over field managers. A label that only such managers own is not kept. The default is kubelet, k3s*, rke2*, kubelite,
	// *cloud-controller-manager and nfd-master.
	// +kubebuilder:validation:items:MinLength=1
	IgnoreManagers []string `json:"ignoreManagers"`
	// Patterns over field managers of further clients that operators change Nodes with. What components usually set is kept only if operators'
	// clients set it. The known ones are kubectl, consoles, Lens, k9s, Headlamp, Terraform, Pulumi, Crossplane, Ansible and scripts. So are
	// Argo CD, Flux, Helm, Rancher and kubeadm. ignoreManagers must not cover what is here.
	// +kubebuilder:validation:items:MinLength=1
	Operators []string `json:"operators"`
	// Which value wins where a Node registers with another value than the recorded one: keepNode (the default) or restoreStored.
	// restoreStored is for kubelets whose --node-labels lag behind what operators set.
	OnConflict OnConflict `json:"onConflict"`
	// How labels are restored that no kubelet may set: deferred (the default), inline or never. inline is for clusters in which no gate may
	// delay a Node, and never is for those in which another tool sets these labels.
	Protected Protected `json:"protected"`
	// Labels that follow from facts. Of the rules for a key, the first that holds decides.
	// +kubebuilder:validation:MaxItems=200
	Rules []classify.Rule `json:"rules"`
	// Label keys that are being renamed.
	// +kubebuilder:validation:MaxItems=20
	Migrations []Migration `json:"migrations"`
}

// Taints is the section taints.
type Taints struct {
	// Patterns over keys of taints, where only some are to be kept. The default is "*".
	// +kubebuilder:validation:items:MinLength=1
	Keep []string `json:"keep"`
	// Patterns over keys of taints that are not kept. They win over keep.
	// +kubebuilder:validation:items:MinLength=1
	Ignore []string `json:"ignore"`
	// Taints that a new Node gets once, until the tool that prepares the Node removes them.
	Register []Registration `json:"register"`
	// Taints that are on a Node as long as a label is.
	Rules []TaintRule `json:"rules"`
}

// Registration is an entry of taints.register.
type Registration struct {
	// KEY:EFFECT or KEY=VALUE:EFFECT.
	// +required
	// +kubebuilder:validation:Pattern=`^[^=:]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`
	Taint string `json:"taint"`
	// Which Nodes get it, as kubectl -l takes it. Without one, all.
	NodeSelector string `json:"nodeSelector"`
	// Whether a Node gets it again whenever its machine has rebooted (status.nodeInfo.bootID has changed); false by default. Not with NoExecute,
	// which would evict Pods that started again after the reboot.
	OnReboot bool `json:"onReboot"`
}

// TaintRule is an entry of taints.rules.
type TaintRule struct {
	// Which Nodes have the taint, as kubectl -l takes it.
	// +required
	Selector string `json:"selector"`
	// KEY:EFFECT or KEY=VALUE:EFFECT. A value of {value} is that of the label.
	// +required
	// +kubebuilder:validation:Pattern=`^[^=:]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`
	Taint string `json:"taint"`
}

// Machine is the section machine.
type Machine struct {
	// What another machine gets that registers under the name of a Node: restore (the default), quarantine (an operator decides) or forget. forget is
	// for Nodes whose names are addresses.
	OnMismatch OnMismatch `json:"onMismatch"`
	// Whether a machine that registers under a new name gets its record; false by default. It is for machines that are renamed.
	Follow bool `json:"follow"`
}

// Retention is a duration in h, m and s, or 0.
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
// +kubebuilder:validation:XValidation:rule="type(self) != int || self == 0",message="must be a duration in h, m and s, such as 720h, or 0 for ever"
type Retention string

// UnmarshalJSON reads a string or a number.
func (r *Retention) UnmarshalJSON(data []byte) error {
	var number json.Number
	if len(data) > 0 && data[0] != '"' && json.Unmarshal(data, &number) == nil {
		*r = Retention(number)
		return nil
	}
	return json.Unmarshal(data, (*string)(r))
}

// defaultSpec has what holds where a policy says nothing.
func defaultSpec() Spec {
	return Spec{
		Labels: Labels{
			Keep:           []string{"*"},
			IgnoreManagers: []string{"kubelet", "k3s*", "rke2*", "kubelite", "*cloud-controller-manager", "nfd-master"},
			OnConflict:     KeepNode,
			Protected:      Deferred,
		},
		Taints:    Taints{Keep: []string{"*"}},
		Cordon:    IgnoreCordon,
		Machine:   Machine{OnMismatch: RestoreAnyway},
		Retention: "720h",
	}
}
