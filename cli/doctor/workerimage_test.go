package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestAWorkerImageOfOnesOwnIsMentionedAndNoFinding(t *testing.T) {
	seen := healthy(t)
	seen.arg(verifyObject, "--image=registry.example.com/worker:1")
	result := judgeVerification(seen).result(checkVerification)
	assert.Equal(t, StatusOK, result.Status)
	assert.Len(t, result.Findings, 1)
	assert.Equal(t, Note, result.Findings[0].Severity)
	assert.Contains(t, result.Findings[0].Message, "Nodes are checked by image registry.example.com/worker:1, and the controller is nodekeep:")
	assert.Contains(t, result.Findings[0].Message, "; the registries differ, too")
	assert.Contains(t, result.Findings[0].Text, "Check that registry.example.com has the image")

	seen = healthy(t)
	seen.arg(verifyObject, "--image=nodekeep/worker:1")
	result = judgeVerification(seen).result(checkVerification)
	assert.Len(t, result.Findings, 1)
	assert.NotContains(t, result.Findings[0].Message, "registries")
}

func TestTheRegistryOfAnImage(t *testing.T) {
	for image, want := range map[string]string{
		"nodekeep:v1": "docker.io", "library/nodekeep:v1": "docker.io", "registry.example.com/a/b:1": "registry.example.com", "localhost/a": "localhost", "mirror:5000/a@sha256:0": "mirror:5000",
	} {
		assert.Equal(t, want, registryOf(image), image)
	}
}

func TestFindingsOfPullSecrets(t *testing.T) {
	pulls := func(s *Installation) {
		edit(s, verifyObject, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
		})
	}
	requireFindings(t, map[string]breakage{
		"the account of the Pods has no pull secret": {pulls, []string{
			"verification: warning: serviceaccount/nodekeep-check: it has no imagePullSecrets mirror, which the Deployment has: Pods that check Nodes may not be able to pull their image",
		}},
		"the account of the Pods has it": {func(s *Installation) {
			pulls(s)
			edit(s, accountObject, func(a *corev1.ServiceAccount) {
				a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
			})
		}, nil},
	})
}
