package doctor

import (
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// flagOf returns the value of a flag that a Deployment gives its process. The last one counts, and a flag without a value is "true".
func flagOf(deployment Reading[*appsv1.Deployment], name string) (value string, given bool) {
	if !deployment.Found {
		return "", false
	}
	for _, container := range deployment.Value.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			flag, text, hasValue := strings.Cut(arg, "=")
			if flag != "--"+name {
				continue
			}
			if value, given = text, true; !hasValue {
				value = "true"
			}
		}
	}
	return value, given
}

// flagIsOn reports whether a Deployment gives its process a flag that is on or off.
func flagIsOn(deployment Reading[*appsv1.Deployment], name string) bool {
	value, given := flagOf(deployment, name)
	return given && value != "false"
}

// ServingSecret returns the name of the Secret with the certificate that the webhook serves. It is the webhook's own Secret, or the one mounted as its
// directory of certificates.
func (s Installation) ServingSecret() string {
	deployment := s.webhookDeployment()
	directory, given := flagOf(deployment, "cert-dir")
	if !given {
		return selfSignedSecret
	}
	pod := deployment.Value.Spec.Template.Spec
	for _, container := range pod.Containers {
		for _, mount := range container.VolumeMounts {
			i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.Secret != nil })
			if i >= 0 && path.Clean(mount.MountPath) == path.Clean(directory) {
				return pod.Volumes[i].Secret.SecretName
			}
		}
	}
	return selfSignedSecret
}
