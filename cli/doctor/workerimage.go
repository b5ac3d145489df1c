package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

const accountObject = "serviceaccount/" + verify.Account

// judgeWorkerImage compares the image of the controller with that of the Pods that it makes. Whether Nodes can pull from the registry shows only once a
// Pod was started.
func (s Installation) judgeWorkerImage(a *answer) {
	image, given := flagOf(s.verifyDeployment(), "image")
	for _, container := range s.verifyDeployment().Value.Spec.Template.Spec.Containers {
		if container.Name != "verify" || !given || container.Image == image {
			continue
		}
		var remedy Remedy
		hint := ""
		if registry, installed := registryOf(image), registryOf(container.Image); registry != installed {
			hint = "; the registries differ, too"
			remedy = newRemedy("Check that " + registry + " has the image and that all Nodes can pull from it. Otherwise change the value verify.image of the chart.")
		}
		a.add(Note, verifyObject, remedy,
			"Nodes are checked by image %s, and the controller is %s: they must be of one version%s", image, container.Image, hint)
	}
}

// registryOf returns the host of an image's name; without one, it is the default registry of container runtimes.
func registryOf(image string) string {
	host, _, found := strings.Cut(image, "/")
	if found && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return host
	}
	return "docker.io"
}

// judgePullSecrets judges whether the Pods that check Nodes use the Secrets with which the controller itself was pulled.
func (s Installation) judgePullSecrets(a *answer) {
	account := decode[corev1.ServiceAccount](s, accountObject)
	if !account.Found {
		return
	}
	for _, secret := range s.verifyDeployment().Value.Spec.Template.Spec.ImagePullSecrets {
		if !slices.Contains(account.Value.ImagePullSecrets, secret) {
			a.add(Warning, accountObject, newRemedy("Set image.pullSecrets of the chart and run helm upgrade. The Secret must be in namespace "+s.ChecksNamespace()+" too."),
				"it has no imagePullSecrets %s, which the Deployment has: Pods that check Nodes may not be able to pull their image", secret.Name)
		}
	}
}
