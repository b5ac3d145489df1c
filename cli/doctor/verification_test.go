package doctor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/verify"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// profilesOf returns a policy with these profiles, each with a check.
func profilesOf(profiles ...string) string {
	text := policytest.Manifest("verify:\n  profiles:")
	for _, profile := range profiles {
		text += "    - {" + profile + ", checks: [{name: api, api: {}}]}\n"
	}
	return text
}

func TestAnInstallationWithoutVerificationIsHealthy(t *testing.T) {
	seen := healthy(t)
	seen.ComparedObjects = inCluster(t, "crd.yaml", "nodekeep.yaml")
	seen.Policy, seen.AcceptedConfigMap = Absent[*unstructured.Unstructured](), Absent[*corev1.ConfigMap]()
	seen.VerifyLease, seen.ChecksNamespaceObject = Absent[Leadership](), Absent[*corev1.Namespace]()
	result := judgeVerification(seen).result(checkVerification)
	assert.Equal(t, StatusOK, result.Status, result.Title)
	assert.Equal(t, "off: nodekeep-verify is not installed", result.Title)
}

func TestVerificationThatWorksIsSummedUp(t *testing.T) {
	result := judgeVerification(healthy(t)).result(checkVerification)
	assert.Equal(t, StatusOK, result.Status, result.Title)
	assert.Equal(t, "nodekeep-verify: 2 of 2 replicas are available; nodekeep-verify-1 leads; the policy has 1 profile", result.Title)
}

// The policy that confines the account names the taints and the label of the profiles.
func TestThePolicyOfTheAccountIsComparedWithTheProfilesInForce(t *testing.T) {
	seen := healthy(t)
	seen.setPolicy(profilesOf("name: gpu, nodeSelector: gpu=yes, taint: 'example.com/unverified:NoSchedule'", "name: rest") + "    label: example.com/verified\n")
	edit(&seen, verifyObject, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Tolerations = append(d.Spec.Template.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	})
	want := "validatingadmissionpolicy/nodekeep-verify"
	var objects []string
	for _, finding := range judgeVerification(seen).findings {
		objects = append(objects, finding.Object)
	}
	assert.Equal(t, []string{want, want}, objects, "the taints and the label")
	seen.patch(t, want, `[{"op":"replace","path":"/spec/variables/0/expression","value":"['example.com/unverified','nodekeep.dev/unverified']"},{"op":"replace","path":"/spec/variables/1/expression","value":"'example.com/verified'"}]`)
	assert.Empty(t, judgeVerification(seen).findings)
}

func TestFindingsOfVerification(t *testing.T) {
	const (
		check  = "verification: "
		waits  = ": Nodes with a verification taint keep it and take no workloads"
		checks = "namespace/nodekeep-checks: "
	)
	old := now.Add(-time.Hour)
	taints := []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
	tainted := func(s *Installation, name string, labels map[string]string, created time.Time) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: metav1.Time{Time: created}}, Spec: corev1.NodeSpec{Taints: taints}}
		s.Nodes.Value.AddVerification(node, s.VerificationKeys(), s.Profiles(), s.Now)
	}
	linux := map[string]string{"kubernetes.io/os": "linux"}
	requireFindings(t, map[string]breakage{
		"the policy has profiles and nothing acts on them": {
			func(s *Installation) { s.remove(verifyObject) },
			[]string{check + "error: deployment/nodekeep-verify: it does not exist" + waits},
		},
		"it was switched off while Nodes waited": {
			func(s *Installation) {
				s.remove(verifyObject)
				s.setPolicy(policytest.Head)
				for i := range 12 {
					tainted(s, fmt.Sprintf("worker-%d", i), linux, old)
				}
			},
			append(repeat(10, func(i int) string {
				return fmt.Sprintf("%serror: node/worker-%d: it has a verification taint, and verification is off: it takes no new workloads, and nothing removes the taint", check, i)
			}), check+"error: : 2 more Nodes have a verification taint that nothing removes"),
		},
		"no replica is available": {
			func(s *Installation) {
				edit(s, verifyObject, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
			},
			[]string{check + "error: deployment/nodekeep-verify: none of 2 replicas is available" + waits},
		},
		"its pods do not tolerate the taint of a profile": { // it cannot free the Node that it would run on
			func(s *Installation) {
				edit(s, verifyObject, func(d *appsv1.Deployment) {
					var kept []corev1.Toleration
					for _, toleration := range d.Spec.Template.Spec.Tolerations {
						if toleration.Key != verify.Taint && toleration.Key != "" {
							kept = append(kept, toleration)
						}
					}
					d.Spec.Template.Spec.Tolerations = kept
				})
			},
			[]string{check + "error: deployment/nodekeep-verify: its pods do not tolerate nodekeep.dev/unverified:NoSchedule: a cluster whose Nodes are all new does not recover by itself"},
		},
		"nobody has ever led": {
			func(s *Installation) { s.VerifyLease = Absent[Leadership]() },
			[]string{check + "error: lease/nodekeep-verify: no replica of nodekeep-verify leads" + waits},
		},
		"nobody leads any more": {
			func(s *Installation) { s.VerifyLease = Found(lease("a", old)) },
			[]string{check + "error: lease/nodekeep-verify: no replica of nodekeep-verify leads" + waits},
		},
		"its namespace does not exist": {
			func(s *Installation) { s.ChecksNamespaceObject = Absent[*corev1.Namespace]() },
			[]string{check + "error: " + checks + "it does not exist, so no Pod that checks a Node starts" + waits},
		},
		"its namespace is being deleted": {
			func(s *Installation) { s.ChecksNamespaceObject.Value.DeletionTimestamp = &metav1.Time{Time: now} },
			[]string{check + "error: " + checks + "it is being deleted, so no Pod that checks a Node starts" + waits},
		},
		"its namespace admits privileged Pods": {
			func(s *Installation) { s.ChecksNamespaceObject.Value.Labels[podSecurity] = "privileged" },
			[]string{check + `warning: ` + checks + `its label pod-security.kubernetes.io/enforce is "privileged", not "restricted": who may make Pods in it can make privileged ones on any Node`},
		},
		"another namespace is named": {
			func(s *Installation) {
				s.arg(verifyObject, "--checks-namespace=other")
				s.ChecksNamespaceObject = Absent[*corev1.Namespace]()
			},
			[]string{check + "error: namespace/other: it does not exist, so no Pod that checks a Node starts" + waits},
		},
		"a right is missing": {
			func(s *Installation) {
				s.patch(t, "clusterrole/nodekeep-verify", `[{"op":"replace","path":"/rules/2/verbs","value":["get"]}]`)
			},
			[]string{check + "warning: clusterrole/nodekeep-verify: it does not grant patch nodes/status: the condition nodekeep.dev/Verified is not written"},
		},
		"rights of several kinds are missing": {
			func(s *Installation) {
				s.patch(t, "role/"+checksRole, `[{"op":"replace","path":"/rules","value":[]}]`)
			},
			[]string{
				check + "error: role/nodekeep-verify-checks: it does not grant get pods in namespace nodekeep-checks, list pods in namespace nodekeep-checks, watch pods in namespace nodekeep-checks, " +
					"create pods in namespace nodekeep-checks, delete pods in namespace nodekeep-checks: no Pod that checks a Node starts" + waits,
				check + "error: role/nodekeep-verify-checks: it does not grant list configmaps in namespace nodekeep-checks, create configmaps in namespace nodekeep-checks, " +
					"update configmaps in namespace nodekeep-checks, delete configmaps in namespace nodekeep-checks: reports of attempts that fail cannot be kept, so " + unverifiedEffect,
			},
		},
		"the policy of its account was changed": {
			func(s *Installation) {
				s.patch(t, "validatingadmissionpolicy/nodekeep-verify", `[{"op":"replace","path":"/spec/matchConditions/0/expression","value":"false"}]`)
			},
			[]string{check + "warning: validatingadmissionpolicy/nodekeep-verify: spec.matchConditions[0].expression is false, and nodekeep ships request.userInfo..."},
		},
		"its Pods may preempt others": {
			func(s *Installation) {
				s.patch(t, "priorityclass/nodekeep-check", `[{"op":"replace","path":"/preemptionPolicy","value":"PreemptLowerPriority"}]`)
			},
			[]string{check + "error: priorityclass/nodekeep-check: preemptionPolicy is PreemptLowerPriority, and nodekeep ships Never..."},
		},
		"another priority, labels on the namespace and a worker image of one's own are choices": {
			func(s *Installation) {
				s.patch(t, "priorityclass/nodekeep-check", `[{"op":"replace","path":"/value","value":5}]`)
				s.ChecksNamespaceObject.Value.Labels["team"] = "infra"
			}, nil,
		},
		"Nodes wait, and not for too long": {
			func(s *Installation) { tainted(s, "new", linux, now.Add(-time.Minute)); tainted(s, "other", nil, old) }, nil,
		},
		"a Node waits for longer than its profile allows": {
			func(s *Installation) { tainted(s, "stuck", linux, old) },
			[]string{check + "warning: node/stuck: it has waited to be verified for 60m, longer than the deadline of its profile, and takes no new workloads"},
		},
	})
}

func repeat(n int, text func(int) string) (all []string) {
	for i := range n {
		all = append(all, text(i))
	}
	return all
}
