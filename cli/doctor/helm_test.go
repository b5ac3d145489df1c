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
func (s *Seen) byHelm(name string) {
	for _, object := range s.Objects {
		if object.Found.Found {
			object.Found.Value.SetLabels(map[string]string{managedBy: "Helm"})
			object.Found.Value.SetAnnotations(map[string]string{releaseName: name, releaseNamespace: "apps"})
		}
	}
}

// commands returns those of all remedies.
func commands(seen Seen) (all []string) {
	for _, finding := range Judge(seen, nil).Distinct() {
		all = append(all, finding.Commands...)
	}
	return all
}

func TestRemediesOfAnInstallationByHelmAreUpgradesOfItsRelease(t *testing.T) {
	const upgrade = "helm upgrade keep manifests/chart --namespace apps --reset-values --values values.yaml"
	for name, test := range map[string]struct {
		set  func(*Seen)
		want []string
	}{
		"an object is missing":      {func(s *Seen) { s.remove(mutatingObject) }, []string{upgrade}},
		"verification is missing":   {func(s *Seen) { s.remove("priorityclass/nodekeep-check") }, []string{upgrade}},
		"the controller is missing": {func(s *Seen) { s.remove(verifyObject) }, []string{upgrade, "kubectl taint nodes --all nodekeep.dev/unverified-"}},
		"pods are changed":          {func(s *Seen) { s.arg(captureObject, "--gate-key=other") }, []string{upgrade}},
		"one is scaled to nothing": {func(s *Seen) {
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
			for _, finding := range Judge(seen, nil).Distinct() {
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
	remedyOf := func(seen Seen) Remedy {
		found := resultOf(t, Judge(seen, nil), checkVerification).Findings
		require.NotEmpty(t, found)
		return found[0].Remedy
	}
	for name, change := range map[string]func(*Seen){
		"a field of its pods": func(s *Seen) { s.arg(verifyObject, "--gate-key=other") },
		"a right":             func(s *Seen) { s.patch(t, clusterRole, `[{"op":"replace","path":"/rules","value":[]}]`) },
		"what it binds":       func(s *Seen) { s.patch(t, binding, extra) },
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
			assert.Equal(t, seen.reapply().Text, remedyOf(seen).Text)
			assert.Contains(t, remedyOf(seen).Commands, seen.upgrade()[0])
		})
	}
	seen := healthy(t)
	seen.byHelm("keep")
	seen.remove(clusterRole)
	assert.Contains(t, remedyOf(seen).Text, "Set verify.enabled to true")
	seen = healthy(t)
	seen.byHelm("keep")
	seen.patch(t, binding, extra)
	assert.Equal(t, append([]string{"kubectl delete " + binding}, seen.upgrade()...), remedyOf(seen).Commands)
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
	r, ok := Seen{Objects: []Object{{Found: Found(&unstructured.Unstructured{Object: map[string]any{}})}}}.helm()
	assert.False(t, ok)
	assert.Empty(t, r)
}

func TestThatNothingIsInstalledIsOneSentence(t *testing.T) {
	seen := healthy(t)
	for i := range seen.Objects {
		if seen.Objects[i].Name() != definitionObject { // an uninstallation leaves it
			seen.Objects[i].Found = Absent[*unstructured.Unstructured]()
		}
	}
	report := Judge(seen, nil)
	assert.False(t, report.Healthy)
	assert.Len(t, report.Checks, 1)
	assert.Equal(t, []string{"installation: error: : nodekeep is not installed. Namespace nodekeep-system still has 130 records, which a new installation uses"}, found(t, seen))
	seen.Records.Value.All = 0
	assert.Equal(t, []string{"installation: error: : nodekeep is not installed"}, found(t, seen))
	assert.Equal(t, []string{"helm install nodekeep manifests/chart --namespace nodekeep-system --create-namespace --values values.yaml --wait"}, commands(seen))

	seen.Objects[0].Found = NotKnown[*unstructured.Unstructured](Unknown{Reason: "no answer"})
	for i := range seen.Objects {
		if seen.Objects[i].Name() == captureObject {
			seen.Objects[i].Found = NotKnown[*unstructured.Unstructured](Unknown{Reason: "no answer"})
		}
	}
	assert.Greater(t, len(Judge(seen, nil).Checks), 1, "what is not known may be there")
}

func TestThatNodekeepIsInstalledInAnotherNamespaceIsOneSentence(t *testing.T) {
	seen := healthy(t)
	seen.Namespace = "default"
	seen.remove(webhookObject, captureObject)
	assert.Len(t, Judge(seen, nil).Checks, 1)
	assert.Equal(t, []string{"installation: error: : nodekeep is installed in namespace nodekeep-system, and not in default"}, found(t, seen))

	seen.Namespace = namespace
	assert.Greater(t, len(Judge(seen, nil).Checks), 1, "it is installed here, and its Deployments are missing")
}

func TestCommandsAreForTheNamespaceOfTheInstallation(t *testing.T) {
	seen := healthy(t)
	seen.Namespace = "elsewhere"
	assert.Equal(t, Remedy{Commands: []string{"nodekeep list --waiting gate -n elsewhere", "kubectl get x | nodekeep check - -n elsewhere", "kubectl get nodes"}},
		seen.inNamespace(advice("", "nodekeep list --waiting gate", "kubectl get x | nodekeep check -", "kubectl get nodes")))
	seen.Records.Value.Waiting.Add("worker-1")
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
	seen.Leader, seen.VerifyLeader = Found(lease("nodekeep-capture-0_uid", now.Add(-time.Hour))), Found(lease("nodekeep-verify-0_uid", now.Add(-time.Hour)))
	created(time.Minute)
	assert.Empty(t, found(t, seen))

	created(3 * time.Minute)
	assert.Equal(t, []string{
		"leader: error: lease/nodekeep-capture: no capture has led since this one was installed: edits are not recorded, and Nodes that wait behind the gate wait on",
		"verification: error: lease/nodekeep-verify: no replica of nodekeep-verify leads: " + unverified,
	}, found(t, seen))

	created(time.Minute)
	seen.Leader = Found(lease("nodekeep-capture-1_uid", now.Add(-time.Hour)))
	assert.Len(t, found(t, seen), 1, "its holder has a Pod")
	seen.Leader = Found(lease("nodekeep-capture-0_uid", now.Add(-30*time.Second)))
	assert.Len(t, found(t, seen), 1, "it was renewed since")
}
