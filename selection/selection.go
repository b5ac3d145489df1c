package selection

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Use is one way in which an object selects on one key.
type Use struct {
	Object
	Key   string
	Field Field
}

// Object is what selects.
type Object struct {
	Kind      string
	Namespace string // empty: the kind has none
	Name      string
	// Controller is what made the object, as Kind/name; empty: nothing did. Its template selects on the same keys.
	Controller string
}

// String returns the object as kubectl takes it, with its namespace.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

// Field says by which field an object selects.
type Field string

// The fields.
const (
	NodeSelector     Field = "nodeSelector"
	RequiredAffinity Field = "requiredNodeAffinity"
	PreferredNode    Field = "preferredNodeAffinity"
	PodTopology      Field = "podAffinityTopologyKey" // of podAffinity or podAntiAffinity
	TopologySpread   Field = "topologySpreadConstraint"
	VolumeAffinity   Field = "volumeNodeAffinity"
	AllowedTopology  Field = "allowedTopologies"
	RuntimeSelector  Field = "runtimeClassNodeSelector"
)

// Kinds returns the kinds that [Uses] looks into.
func Kinds() []string {
	return []string{"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "PersistentVolume", "StorageClass", "RuntimeClass"}
}

// Uses returns what an object selects on, sorted, each key and field once. A ReplicaSet of a Deployment selects on nothing: its Deployment does.
func Uses(object runtime.Object) []Use {
	var found keys
	var result Object
	describe := func(kind string, meta metav1.ObjectMeta) {
		result = Object{Kind: kind, Namespace: meta.Namespace, Name: meta.Name}
		if controller := metav1.GetControllerOfNoCopy(&meta); controller != nil {
			result.Controller = controller.Kind + "/" + controller.Name
		}
	}
	switch o := object.(type) {
	case *corev1.Pod:
		describe("Pod", o.ObjectMeta)
		if o.Status.Phase != corev1.PodSucceeded && o.Status.Phase != corev1.PodFailed {
			found.ofPod(o.Spec)
		}
	case *appsv1.Deployment:
		describe("Deployment", o.ObjectMeta)
		found.ofPod(o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		describe("StatefulSet", o.ObjectMeta)
		found.ofPod(o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		describe("DaemonSet", o.ObjectMeta)
		found.ofPod(o.Spec.Template.Spec)
	case *appsv1.ReplicaSet:
		describe("ReplicaSet", o.ObjectMeta)
		if controller := metav1.GetControllerOfNoCopy(o); controller == nil || controller.Kind != "Deployment" {
			found.ofPod(o.Spec.Template.Spec)
		}
	case *corev1.ReplicationController:
		describe("ReplicationController", o.ObjectMeta)
		if o.Spec.Template != nil {
			found.ofPod(o.Spec.Template.Spec)
		}
	case *batchv1.Job:
		describe("Job", o.ObjectMeta)
		if !ended(o) {
			found.ofPod(o.Spec.Template.Spec)
		}
	case *batchv1.CronJob:
		describe("CronJob", o.ObjectMeta)
		found.ofPod(o.Spec.JobTemplate.Spec.Template.Spec)
	case *corev1.PersistentVolume:
		describe("PersistentVolume", o.ObjectMeta)
		if o.Spec.NodeAffinity != nil {
			found.ofSelector(o.Spec.NodeAffinity.Required, VolumeAffinity)
		}
	case *storagev1.StorageClass:
		describe("StorageClass", o.ObjectMeta)
		for _, term := range o.AllowedTopologies {
			for _, requirement := range term.MatchLabelExpressions {
				found.add(requirement.Key, AllowedTopology)
			}
		}
	case *nodev1.RuntimeClass:
		describe("RuntimeClass", o.ObjectMeta)
		if o.Scheduling != nil {
			for key := range o.Scheduling.NodeSelector {
				found.add(key, RuntimeSelector)
			}
		}
	}
	slices.SortFunc(found, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Field, b.Field)) })
	found = slices.Compact(found)
	for i := range found {
		found[i].Object = result
	}
	return found
}

// ended reports whether a Job makes no Pods any more.
func ended(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// keys are uses of which the object is not filled in.
type keys []Use

func (k *keys) add(key string, field Field) {
	if key != "" {
		*k = append(*k, Use{Key: key, Field: field})
	}
}

func (k *keys) ofPod(spec corev1.PodSpec) {
	for key := range spec.NodeSelector {
		k.add(key, NodeSelector)
	}
	for _, constraint := range spec.TopologySpreadConstraints {
		k.add(constraint.TopologyKey, TopologySpread)
	}
	if spec.Affinity == nil {
		return
	}
	if node := spec.Affinity.NodeAffinity; node != nil {
		k.ofSelector(node.RequiredDuringSchedulingIgnoredDuringExecution, RequiredAffinity)
		for _, preferred := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			k.ofTerm(preferred.Preference, PreferredNode)
		}
	}
	// Both kinds of affinity to Pods have the same fields.
	for _, pods := range []*corev1.PodAffinity{spec.Affinity.PodAffinity, (*corev1.PodAffinity)(spec.Affinity.PodAntiAffinity)} {
		if pods == nil {
			continue
		}
		for _, term := range pods.RequiredDuringSchedulingIgnoredDuringExecution {
			k.add(term.TopologyKey, PodTopology)
		}
		for _, term := range pods.PreferredDuringSchedulingIgnoredDuringExecution {
			k.add(term.PodAffinityTerm.TopologyKey, PodTopology)
		}
	}
}

func (k *keys) ofSelector(selector *corev1.NodeSelector, field Field) {
	if selector == nil {
		return
	}
	for _, term := range selector.NodeSelectorTerms {
		k.ofTerm(term, field)
	}
}

// ofTerm leaves out matchFields: these are the Node's name.
func (k *keys) ofTerm(term corev1.NodeSelectorTerm, field Field) {
	for _, requirement := range term.MatchExpressions {
		k.add(requirement.Key, field)
	}
}
