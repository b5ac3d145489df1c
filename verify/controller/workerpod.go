package controller

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/verify"
)

// Names and values of worker Pods.
const (
	priorityClass = "nodekeep-check"
	safeToEvict   = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	profileLabel  = "nodekeep.dev/profile"
	unprivileged  = 65532
	tokenSeconds  = 600
	credentials   = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// workerPod returns the Pod that carries out a task on a Node. It goes past the scheduler, and is small, unprivileged and without rights.
func workerPod(options Options, name string, node *verify.Node, action verify.Action, task verify.Task) *corev1.Pod {
	profile := action.Profile
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: options.Namespace, Name: name,
			Labels: map[string]string{
				"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": "check", "app.kubernetes.io/managed-by": "nodekeep", profileLabel: profile.Name,
			},
			Annotations:     map[string]string{safeToEvict: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: types.UID(node.UID)}},
		},
		Spec: corev1.PodSpec{
			NodeName:                      node.Name,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			PriorityClassName:             priorityClass,
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(math.Ceil((profile.StartTimeout + profile.Timeout + time.Minute).Seconds()))),
			TerminationGracePeriodSeconds: new(int64(1)),
			ServiceAccountName:            verify.Account,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(unprivileged)), RunAsGroup: new(int64(unprivileged)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: verify.Worker, Image: options.Image, ImagePullPolicy: options.Pull, Args: []string{"worker"},
				Env: []corev1.EnvVar{{Name: verify.TaskVariable, Value: task.String()}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
				},
				SecurityContext: restricted(true),
			}},
		},
	}
	for _, check := range task.Checks {
		if check.Container != nil {
			pod.Spec.Containers = append(pod.Spec.Containers, containerCheck(check))
		}
	}
	if class := verify.RuntimeClass(task.Checks); class != "" {
		pod.Spec.RuntimeClassName = &class
	}
	if slices.ContainsFunc(task.Checks, func(check verify.Check) bool { return check.Needs().Token }) {
		addToken(&pod.Spec)
	}
	return pod
}

// restricted returns what Pod Security restricted asks of a container.
func restricted(readOnly bool) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: &readOnly, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func containerCheck(check verify.Check) corev1.Container {
	container := corev1.Container{
		Name: check.Name, Image: check.Container.Image, Command: check.Container.Command, Args: check.Container.Args, SecurityContext: restricted(false),
	}
	for _, name := range slices.Sorted(maps.Keys(check.Container.Env)) {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: check.Container.Env[name]})
	}
	for name, limit := range check.Container.Limits {
		if container.Resources.Limits == nil {
			container.Resources.Limits = corev1.ResourceList{}
		}
		container.Resources.Limits[corev1.ResourceName(name)] = resource.MustParse(string(limit)) // the policy was checked
	}
	return container
}

// addToken gives the worker a token that lives for ten minutes, of an account without rights.
func addToken(spec *corev1.PodSpec) {
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: credentials, ReadOnly: true}}
	spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
	}}}}}
	spec.SecurityContext.FSGroup = new(int64(unprivileged))
}
