package selection

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }

func by(kind string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: "team", Name: "of-" + kind, OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: &yes}}}
}

func selecting() corev1.PodSpec {
	return corev1.PodSpec{NodeSelector: map[string]string{"k": "x"}}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: selecting()}
}

func term(key string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}},
		MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}
}

func TestEveryFieldThatSelectsNodesIsFound(t *testing.T) {
	required := func(key string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term(key), term(key)}}
	}
	pod := corev1.PodSpec{
		NodeSelector:              map[string]string{"b": "1", "a": "1"},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "spread"}},
		Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  required("needed"),
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Preference: term("liked")}},
			},
			PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{{TopologyKey: "near"}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "nearish"}}},
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{{TopologyKey: "far"}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "farish"}}},
			},
		},
	}
	whole := map[string]Field{
		"a": NodeSelector, "b": NodeSelector, "spread": TopologySpread, "needed": RequiredAffinity, "liked": PreferredNode,
		"near": PodTopology, "nearish": PodTopology, "far": PodTopology, "farish": PodTopology,
	}
	item := map[string]Field{"k": NodeSelector}
	for name, test := range map[string]struct {
		object runtime.Object
		kind   string
		want   map[string]Field
	}{
		"a Pod with all of them": {&corev1.Pod{ObjectMeta: named("p"), Spec: pod}, "Pod", whole},
		"a Pod that has no affinity to other Pods": {&corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required("k")}}}}, "Pod", map[string]Field{"k": RequiredAffinity}},
		"a Pod without any":                            {&corev1.Pod{ObjectMeta: named("p")}, "", nil},
		"a Pod that has succeeded":                     {&corev1.Pod{ObjectMeta: named("p"), Spec: selecting(), Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, "", nil},
		"a Pod that has failed":                        {&corev1.Pod{ObjectMeta: named("p"), Spec: selecting(), Status: corev1.PodStatus{Phase: corev1.PodFailed}}, "", nil},
		"a Deployment":                                 {&appsv1.Deployment{ObjectMeta: named("d"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}, "Deployment", whole},
		"a StatefulSet":                                {&appsv1.StatefulSet{ObjectMeta: named("s"), Spec: appsv1.StatefulSetSpec{Template: template()}}, "StatefulSet", item},
		"a DaemonSet":                                  {&appsv1.DaemonSet{ObjectMeta: named("d"), Spec: appsv1.DaemonSetSpec{Template: template()}}, "DaemonSet", item},
		"a ReplicaSet by itself":                       {&appsv1.ReplicaSet{ObjectMeta: named("r"), Spec: appsv1.ReplicaSetSpec{Template: template()}}, "ReplicaSet", item},
		"a ReplicaSet of a Deployment, which shows it": {&appsv1.ReplicaSet{ObjectMeta: by("Deployment"), Spec: appsv1.ReplicaSetSpec{Template: template()}}, "", nil},
		"a ReplicaSet of a custom resource, which nobody reads": {&appsv1.ReplicaSet{ObjectMeta: by("Rollout"), Spec: appsv1.ReplicaSetSpec{Template: template()}}, "ReplicaSet", item},
		"a ReplicationController":                               {&corev1.ReplicationController{ObjectMeta: named("r"), Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{Spec: selecting()}}}, "ReplicationController", item},
		"a ReplicationController without a template":            {&corev1.ReplicationController{ObjectMeta: named("r")}, "", nil},
		"a Job that runs":                                       {&batchv1.Job{ObjectMeta: by("CronJob"), Spec: batchv1.JobSpec{Template: template()}}, "Job", item},
		"a Job that has ended":                                  {&batchv1.Job{ObjectMeta: named("j"), Spec: batchv1.JobSpec{Template: template()}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}, "", nil},
		"a CronJob":                                             {&batchv1.CronJob{ObjectMeta: named("c"), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template()}}}}, "CronJob", item},
		"a PersistentVolume":                                    {&corev1.PersistentVolume{ObjectMeta: named("v"), Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: required("k")}}}, "PersistentVolume", map[string]Field{"k": VolumeAffinity}},
		"a StorageClass": {&storagev1.StorageClass{ObjectMeta: named("s"), AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "k", Values: []string{"a"}}}}}}, "StorageClass", map[string]Field{"k": AllowedTopology}},
		"a RuntimeClass":        {&nodev1.RuntimeClass{ObjectMeta: named("r"), Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"k": "x"}}}, "RuntimeClass", map[string]Field{"k": RuntimeSelector}},
		"what it does not know": {&corev1.Node{ObjectMeta: named("n")}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got map[string]Field
			for _, use := range Uses(test.object) {
				if got == nil {
					got = map[string]Field{}
				}
				assert.NotContains(t, got, use.Key, "each once")
				got[use.Key] = use.Field
				assert.Equal(t, test.kind, use.Kind)
				assert.Contains(t, Kinds(), use.Kind)
				assert.Equal(t, "team", use.Namespace)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestAUseNamesItsObjectAndWhatMadeIt(t *testing.T) {
	uses := Uses(&corev1.Pod{ObjectMeta: by("DaemonSet"), Spec: selecting()})
	assert.Equal(t, []Use{{Object: Object{Kind: "Pod", Namespace: "team", Name: "of-DaemonSet", Controller: "DaemonSet/owner"}, Key: "k", Field: NodeSelector}}, uses)
	assert.Equal(t, "Pod/team/of-DaemonSet", uses[0].String())
	assert.Equal(t, "PersistentVolume/v", Object{Kind: "PersistentVolume", Name: "v"}.String())
}
