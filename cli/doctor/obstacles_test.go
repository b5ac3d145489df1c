package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/verify"
)

func TestFindingsOfProfilesThatCannotPass(t *testing.T) {
	const begin = "nodepolicy/default: profile "
	sees := func(s *Installation, node *corev1.Node) {
		s.Nodes.Value.Selected = impact.NewSelectedNodes(s.Profiles(), s.ProfileFacts.Value.Facts, string(s.Gate()), s.Now)
		s.Nodes.Value.Selected.Add(node)
	}
	works := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: map[string]string{"kubernetes.io/os": "linux"}}}
	works.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	requireFindings(t, map[string]breakage{
		"the DNS Service is elsewhere": {
			func(s *Installation) { s.ProfileFacts.Value.Facts.Services[defaultDNS] = nil },
			[]string{"verification: error: " + begin + "linux, check dns: it asks each server of the DNS Service kube-system/kube-dns, which does not exist: no Node passes"},
		},
		"the DNS Service does not answer": {
			func(s *Installation) { s.ProfileFacts.Value.Facts.Services[defaultDNS] = dnsService(0); sees(s, works) },
			[]string{"verification: warning: " + begin + "linux, check dns: it asks each server of the DNS Service kube-system/kube-dns, which has no ready endpoint: no Node passes before it has one"},
		},
		"a Service may not be read": {
			func(s *Installation) {
				delete(s.ProfileFacts.Value.Facts.Services, defaultDNS)
				s.ProfileFacts.Value.Unread = []Unknown{{Reason: "you may not get services in namespace kube-system", Remedy: Remedy{Text: "An administrator can grant it:"}}}
			},
			[]string{"verification: unknown: nodepolicy/default: you may not get services in namespace kube-system"},
		},
		"Nodes of a profile take workloads": {func(s *Installation) { sees(s, works) }, nil},
	})
	seen := healthy(t)
	sees(&seen, &corev1.Node{})
	assert.Contains(t, notes(t, seen), "note: profile linux: it selects no Node; the cluster has 1 Node")
}

func TestFindingsOfProfilesThatAreNotProved(t *testing.T) {
	unproved := func(item impact.Unproved) func(s *Installation) {
		return func(s *Installation) { s.Nodes.Value.Unproved = Found([]impact.Unproved{item}) }
	}
	requireFindings(t, map[string]breakage{
		"a trial failed": {
			unproved(impact.Unproved{Profile: "linux", Reason: "check dns failed", Trial: &verify.SavedReport{}}),
			[]string{"verification: warning: nodepolicy/default: profile linux: not yet proved: check dns failed"},
		},
		"the trials may not be read": {
			func(s *Installation) {
				s.Nodes.Value.Unproved = NotKnown[[]impact.Unproved](Unknown{Reason: "you may not get configmaps", Remedy: Remedy{Text: "An administrator can grant it:"}})
			},
			[]string{"verification: unknown: nodepolicy/default: you may not get configmaps"},
		},
	})
	seen := healthy(t)
	unproved(impact.Unproved{Profile: "linux", Reason: "no open Node of it to try on"})(&seen)
	assert.Contains(t, notes(t, seen), "note: profile linux: not yet proved: no open Node of it to try on")
}

func TestTheDeploymentNamesTheDNSServiceAndTheNamespaceOfTheChecks(t *testing.T) {
	absent := Absent[*appsv1.Deployment]()
	assert.Equal(t, []string{"kube-system/kube-dns", "nodekeep-checks"}, []string{DNSServiceOf(absent), ChecksNamespaceOf(absent)})
	seen := healthy(t)
	seen.arg(verifyObject, "--dns-service=openshift-dns/dns-default")
	seen.arg(verifyObject, "--checks-namespace=other")
	assert.Equal(t, []string{"openshift-dns/dns-default", "other"}, []string{DNSServiceOf(seen.Verifier()), ChecksNamespaceOf(seen.Verifier())})
}
