package doctor

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestFindingsOfDeploymentsAndVersions(t *testing.T) {
	const (
		webhook = "webhook-deployment: error: deployment/nodekeep-webhook: "
		capture = "capture-deployment: error: deployment/nodekeep-capture: "
		waits   = ": Nodes wait behind the gate until capture has completed them"
		unread  = ": edits are not recorded, and Nodes that wait behind the gate wait on"
	)
	requireFindings(t, map[string]breakage{
		"there are none": {
			func(s *Installation) { s.remove(webhookObject, captureObject) },
			[]string{webhook + "it does not exist" + waits, capture + "it does not exist" + unread},
		},
		"there are none, as the processes run outside the cluster": {
			func(s *Installation) {
				s.remove(webhookObject, captureObject)
				s.byURL()
			},
			nil,
		},
		"one is scaled to nothing": {
			func(s *Installation) {
				edit(s, captureObject, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(0)) })
			}, []string{capture + "it is scaled to nothing" + unread},
		},
		"no replica is available, and a pod says why": {
			func(s *Installation) {
				edit(s, webhookObject, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
				s.Pods.Value[0].Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
			},
			[]string{webhook + "none of 3 replicas is available (pod nodekeep-webhook-1: ImagePullBackOff)" + waits},
		},
		"no pod of it can be bound": {
			func(s *Installation) {
				edit(s, captureObject, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
				s.Pods.Value[1].Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}
			},
			[]string{capture + "none of 2 replicas is available (pod nodekeep-capture-1: Unschedulable 0/3 nodes are available)" + unread},
		},
		"a pod of it has ended": {
			func(s *Installation) {
				edit(s, captureObject, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 })
				s.Pods.Value[1].Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}
			},
			[]string{"capture-deployment: warning: deployment/nodekeep-capture: 1 of 2 replicas is available (pod nodekeep-capture-1: ended with code 2)"},
		},
		"a pod of it is not ready": {
			func(s *Installation) {
				edit(s, webhookObject, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 })
				s.Pods.Value[0].Status.ContainerStatuses[0].Ready = false
			},
			[]string{"webhook-deployment: warning: deployment/nodekeep-webhook: 2 of 3 replicas are available (pod nodekeep-webhook-1: runs and is not ready)"},
		},
		"a change is not rolled out": {
			func(s *Installation) { edit(s, webhookObject, func(d *appsv1.Deployment) { d.Generation = 2 }) }, []string{"webhook-deployment: warning: deployment/nodekeep-webhook: its last change is not rolled out"},
		},
		"its pods do not tolerate the gate": {
			func(s *Installation) {
				edit(s, captureObject, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Tolerations = nil })
			},
			[]string{capture + "its pods do not tolerate nodekeep.dev/restoring:NoSchedule, nodekeep.dev/unverified:NoSchedule: a cluster whose Nodes are all new does not recover by itself"},
		},
		"its pods do not tolerate what new Nodes get once": {
			func(s *Installation) {
				s.setPolicy(policytest.Manifest("taints: {register: [{taint: 'a.example.com/b:NoExecute', nodeSelector: pool}, {taint: 'c:PreferNoSchedule'}]}\n"))
				for _, object := range []string{webhookObject, verifyObject} {
					edit(s, object, func(d *appsv1.Deployment) {
						d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
					})
				}
			},
			[]string{capture + "its pods do not tolerate a.example.com/b:NoExecute: a cluster whose Nodes are all new does not recover by itself"},
		},
		"pods run different images": {
			func(s *Installation) {
				s.Pods.Value[1].Spec.Containers = []corev1.Container{{Name: "capture", Image: "nodekeep:v2"}}
			},
			[]string{"versions: warning: pods -l app.kubernetes.io/name=nodekeep: pods run different images: nodekeep:v1, nodekeep:v2: webhook and capture could decide differently"},
		},
		"pods run different images under one name": {
			func(s *Installation) { s.Pods.Value[1].Status.ContainerStatuses[0].ImageID = "sha256:2" },
			[]string{"versions: warning: pods -l app.kubernetes.io/name=nodekeep: pods run 2 different images under one name, nodekeep:v1: webhook and capture could decide differently"},
		},
		"what others put into the pods, and pods that are about to go, have images of their own": {
			func(s *Installation) {
				s.Pods.Value[0].Spec.Containers = append(s.Pods.Value[0].Spec.Containers, corev1.Container{Name: "mesh", Image: "mesh:1"})
				s.Pods.Value[0].Status.ContainerStatuses = append(s.Pods.Value[0].Status.ContainerStatuses, corev1.ContainerStatus{Name: "mesh", Ready: true, ImageID: "sha256:9"})
				old := *s.Pods.Value[1].DeepCopy()
				old.DeletionTimestamp = &metav1.Time{Time: now}
				old.Spec.Containers[0].Image = "nodekeep:v0"
				s.Pods.Value = append(s.Pods.Value, old)
			}, nil,
		},
	})
}
