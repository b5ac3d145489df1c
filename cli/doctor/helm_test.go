package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// byHelm marks the objects of the cluster as Helm does for a release of this name in namespace apps.
func (s *Installation) byHelm(name string) {
	for _, object := range s.ComparedObjects {
		if object.Live.Found {
			object.Live.Value.SetLabels(map[string]string{managedBy: "Helm"})
			object.Live.Value.SetAnnotations(map[string]string{releaseName: name, releaseNamespace: "apps"})
		}
	}
}

// commands returns those of all remedies.
func commands(seen Installation) (all []string) {
	for _, finding := range RunChecks(seen, nil).Distinct() {
		all = append(all, finding.Commands...)
	}
	return all
}

func TestRemediesOfAnInstallationByHelmAreUpgradesOfItsRelease(t *testing.T) {
	const upgrade = "helm upgrade keep manifests/chart --namespace apps --reset-values --values values.yaml"
	for name, test := range map[string]struct {
		set  func(*Installation)
		want []string
	}{
		"an object is missing":      {func(s *Installation) { s.remove(mutatingObject) }, []string{upgrade}},
		"verification is missing":   {func(s *Installation) { s.remove("priorityclass/nodekeep-check") }, []string{upgrade}},
		"the controller is missing": {func(s *Installation) { s.remove(verifyObject) }, []string{upgrade, "kubectl taint nodes --all nodekeep.dev/unverified-"}},
		"pods are changed":          {func(s *Installation) { s.arg(captureObject, "--gate-key=other") }, []string{upgrade}},
		"one is scaled to nothing": {func(s *Installation) {
			edit(s, captureObject, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(0)) })
		}, []string{upgrade}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			seen.byHelm("keep")
			test.set(&seen)
			got := commands(seen)
			for _, want := range test.want {
				assert.Contains(t, got, want)
			}
			for _, command := range got {
				assert.NotContains(t, command, "kubectl apply")
				assert.NotContains(t, command, "kubectl scale")
			}
			for _, finding := range RunChecks(seen, nil).Distinct() {
				assert.NotContains(t, finding.Text, "--force-conflicts")
			}
		})
	}
}

// A release that has verification needs no other value to get back what another client changed; the upgrade may meet a conflict with that client.
func TestWhatIsChangedOfVerificationIsMendedByTheUpgradeOfItsRelease(t *testing.T) {
	const (
		clusterRole = "clusterrole/nodekeep-verify"
		binding     = "clusterrolebinding/nodekeep-verify"
		extra       = `[{"op":"replace","path":"/roleRef/name","value":"view"}]`
	)
	remedyOf := func(seen Installation) Remedy {
		found := resultOf(t, RunChecks(seen, nil), checkVerification).Findings
		require.NotEmpty(t, found)
		return found[0].Remedy
	}
	for name, change := range map[string]func(*Installation){
		"a field of its pods": func(s *Installation) { s.arg(verifyObject, "--gate-key=other") },
		"a right":             func(s *Installation) { s.patch(t, clusterRole, `[{"op":"replace","path":"/rules","value":[]}]`) },
		"what it binds":       func(s *Installation) { s.patch(t, binding, extra) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			change(&seen)
			for _, command := range remedyOf(seen).Commands {
				assert.NotContains(t, command, "kubectl apply", "the manifests of nodekeep have nothing of verification")
			}
			assert.Contains(t, remedyOf(seen).Text, "verify.enabled=true", "it was installed otherwise")
			seen.byHelm("keep")
			change(&seen)
			assert.Equal(t, seen.reapplyRemedy().Text, remedyOf(seen).Text)
			assert.Contains(t, remedyOf(seen).Commands, seen.upgradeCommand()[0])
		})
	}
	seen := healthy(t)
	seen.byHelm("keep")
	seen.remove(clusterRole)
	assert.Contains(t, remedyOf(seen).Text, "Set verify.enabled to true")
	seen = healthy(t)
	seen.byHelm("keep")
	seen.patch(t, binding, extra)
	assert.Equal(t, append([]string{"kubectl delete " + binding}, seen.upgradeCommand()...), remedyOf(seen).Commands)
}

func TestARemedyNamesNoReleaseThatCannotExist(t *testing.T) {
	for _, name := range []string{"", "$(reboot)", "a b", "a;b", "-a", "A", "a'", "a\nb"} {
		seen := healthy(t)
		seen.byHelm(name)
		seen.remove(mutatingObject)
		assert.NotEmpty(t, found(t, seen))
		for _, command := range commands(seen) {
			assert.NotContains(t, command, "helm", "%q", name)
			assert.NotContains(t, command, "kubectl apply", "%q", name)
		}
	}
	r, ok := Installation{ComparedObjects: []Object{{Live: Found(&unstructured.Unstructured{Object: map[string]any{}})}}}.helmRelease()
	assert.False(t, ok)
	assert.Empty(t, r)
}

func TestThatNothingIsInstalledIsOneSentence(t *testing.T) {
	seen := healthy(t)
	for i := range seen.ComparedObjects {
		if seen.ComparedObjects[i].Name() != crdObject { // an uninstallation leaves it
			seen.ComparedObjects[i].Live = Absent[*unstructured.Unstructured]()
		}
	}
	report := RunChecks(seen, nil)
	assert.False(t, report.Healthy)
	assert.Len(t, report.Checks, 1)
	assert.Equal(t, []string{"installation: error: : nodekeep is not installed. Namespace nodekeep-system still has 130 records, which a new installation uses"}, found(t, seen))
	seen.Records.Value.All = 0
	assert.Equal(t, []string{"installation: error: : nodekeep is not installed"}, found(t, seen))
	assert.Equal(t, []string{"helm install nodekeep manifests/chart --namespace nodekeep-system --create-namespace --values values.yaml --wait"}, commands(seen))

	seen.ComparedObjects[0].Live = NotKnown[*unstructured.Unstructured](Unknown{Reason: "no answer"})
	for i := range seen.ComparedObjects {
		if seen.ComparedObjects[i].Name() == captureObject {
			seen.ComparedObjects[i].Live = NotKnown[*unstructured.Unstructured](Unknown{Reason: "no answer"})
		}
	}
	assert.Greater(t, len(RunChecks(seen, nil).Checks), 1, "what is not known may be there")
}

func TestThatNodekeepIsInstalledInAnotherNamespaceIsOneSentence(t *testing.T) {
	seen := healthy(t)
	seen.Namespace = "default"
	seen.remove(webhookObject, captureObject)
	assert.Len(t, RunChecks(seen, nil).Checks, 1)
	assert.Equal(t, []string{"installation: error: : nodekeep is installed in namespace nodekeep-system, and not in default"}, found(t, seen))

	seen.Namespace = namespace
	assert.Greater(t, len(RunChecks(seen, nil).Checks), 1, "it is installed here, and its Deployments are missing")
}

func TestCommandsAreForTheNamespaceOfTheInstallation(t *testing.T) {
	seen := healthy(t)
	seen.Namespace = "elsewhere"
	assert.Equal(t, Remedy{Commands: []string{"nodekeep list --waiting gate -n elsewhere", "kubectl get x | nodekeep check - -n elsewhere", "kubectl get nodes"}},
		seen.inNamespace(newRemedy("", "nodekeep list --waiting gate", "kubectl get x | nodekeep check -", "kubectl get nodes")))
	seen.Records.Value.Quarantined.Add("worker-1")
	assert.Contains(t, commands(seen), "nodekeep accept record worker-1 --machine old -n elsewhere")
	seen.Namespace = namespace
	assert.Contains(t, commands(seen), "nodekeep accept record worker-1 --machine old")
}

// After a reinstallation the Leases of before are still there.
func TestALeaseOfAnEarlierInstallationIsNoFindingWhileProcessesStart(t *testing.T) {
	seen := healthy(t)
	created := func(age time.Duration) {
		for _, object := range []string{captureObject, verifyObject} {
			edit(&seen, object, func(d *appsv1.Deployment) { d.CreationTimestamp = metav1.Time{Time: now.Add(-age)} })
		}
	}
	seen.CaptureLease, seen.VerifyLease = Found(lease("nodekeep-capture-0_uid", now.Add(-time.Hour))), Found(lease("nodekeep-verify-0_uid", now.Add(-time.Hour)))
	created(time.Minute)
	assert.Empty(t, found(t, seen))

	created(3 * time.Minute)
	assert.Equal(t, []string{
		"leader: error: lease/nodekeep-capture: no capture has led since this one was installed: edits are not recorded, and Nodes that wait behind the gate wait on",
		"verification: error: lease/nodekeep-verify: no replica of nodekeep-verify leads: " + unverifiedEffect,
	}, found(t, seen))

	created(time.Minute)
	seen.CaptureLease = Found(lease("nodekeep-capture-1_uid", now.Add(-time.Hour)))
	assert.Len(t, found(t, seen), 1, "its holder has a Pod")
	seen.CaptureLease = Found(lease("nodekeep-capture-0_uid", now.Add(-30*time.Second)))
	assert.Len(t, found(t, seen), 1, "it was renewed since")
}
