package verification

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// checkObstacles returns what `check --against-cluster` shows of profiles that cannot pass.
func checkObstacles(t *testing.T, file string) (sentences []string) {
	t.Helper()
	var check struct {
		Impact struct {
			Profiles []struct {
				Profiles                   []string
				Check, Hinders, What, Next string
			}
		}
	}
	a := nodekeep.Command(t, "", "", "check", file, "--against-cluster", "-o", "json")
	require.Equal(t, 0, a.Code, "%s%s", a.Out, a.ErrOut)
	require.NoError(t, json.Unmarshal([]byte(a.Out), &check), a.Out)
	for _, row := range check.Impact.Profiles {
		sentences = append(sentences, row.Hinders+": "+strings.Join(row.Profiles, ",")+": "+row.What+". "+row.Next)
	}
	return sentences
}

// doctorObstacles returns what doctor finds of the profiles of the policy in force.
func doctorObstacles(t *testing.T) (sentences []string) {
	t.Helper()
	var report struct {
		Checks []struct {
			Check    string
			Findings []struct{ Severity, Object, What, Remedy string }
		}
	}
	a := nodekeep.Command(t, "", "", "doctor", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(a.Out), &report), "%s%s", a.Out, a.ErrOut)
	for _, check := range report.Checks {
		for _, finding := range check.Findings {
			if check.Check == "verification" && finding.Object == "nodepolicy/default" && finding.Severity != "note" {
				sentences = append(sentences, finding.Severity+": "+finding.What+". "+finding.Remedy)
			}
		}
	}
	return sentences
}

func profileFile(t *testing.T, profile string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(policytest.Manifest("verify: {profiles: ["+profile+"]}")), 0o600))
	return file
}

// On RKE2, the DNS Service has another name than the controller asks by default.
func TestADNSServiceUnderAnotherNameIsFoundByBothCommandsAndSettingItIsEnough(t *testing.T) {
	const rke2 = "rke2-coredns-rke2-coredns"
	services := nodekeep.Admin.CoreV1().Services(metav1.NamespaceSystem)
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: rke2},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = nodekeep.Admin.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: rke2, Labels: map[string]string{discoveryv1.LabelServiceName: rke2}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer nodekeep.MustKubectl(t, "-n", "kube-system", "delete", "service,endpointslice", rke2)
	file := profileFile(t, "{name: rke2, nodeSelector: pool=nowhere, checks: [{name: dns, dns: {names: [kubernetes.default.svc], servers: each}}]}")
	const next = ". Set the value verify.dnsService=kube-system/rke2-coredns-rke2-coredns of the chart: this Service exists"
	found := checkObstacles(t, file)
	require.NotEmpty(t, found)
	assert.Equal(t, "all: rke2: it asks each server of the DNS Service kube-system/kube-dns, which does not exist: no Node passes"+next, found[0])
	const skipped = "warning: profiles pool, shared, tried, reports, check dns: the DNS Service kube-system/kube-dns does not exist: while no Node takes workloads, the check is skipped, and Nodes open without it" + next + "."
	assert.Equal(t, []string{skipped}, doctorObstacles(t), "of the policy in force")
	nodekeep.SetPolicy(t, strings.ReplaceAll(verifying, "[kubernetes.default.svc]}", "[kubernetes.default.svc], servers: each}"))
	defer nodekeep.SetPolicy(t, verifying)
	assert.Equal(t, []string{"error: profiles pool, shared, tried, reports, check dns: it asks each server of the DNS Service kube-system/kube-dns, which does not exist: no Node passes" + next + "."}, doctorObstacles(t))

	uses := func(dns string) {
		t.Helper()
		nodekeep.MustKubectl(t, "-n", harness.Namespace, "patch", "deployment", "nodekeep-verify", "--type=json", "-p",
			`[{"op":"replace","path":"/spec/template/spec/containers/0/args/4","value":"--dns-service=`+dns+`"}]`)
	}
	uses("kube-system/" + rke2)
	defer uses("kube-system/kube-dns")
	assert.Empty(t, doctorObstacles(t))
	for _, sentence := range checkObstacles(t, file) {
		assert.NotContains(t, sentence, "DNS Service")
	}
}

// A DaemonSet that does not tolerate the taint waits for the Node to open, and the profile waits for its Pod.
func TestADaemonSetAndAProfileThatWaitForEachOtherAreFoundAndTheTolerationIsEnough(t *testing.T) {
	file := profileFile(t, "{name: driver, nodeSelector: pool=nowhere, wait: {daemonSets: [default/driver]}, checks: [{name: api, api: {}}]}")
	const missing, deadlock = "all: driver: it waits for DaemonSet default/driver, which does not exist", "all: driver: it waits for DaemonSet default/driver, whose Pods do not tolerate its taint nodekeep.dev/unverified:NoSchedule"
	obstacle := func() string {
		t.Helper()
		for _, sentence := range checkObstacles(t, file) {
			if strings.HasPrefix(sentence, "all: ") {
				return sentence
			}
		}
		return ""
	}
	assert.Contains(t, obstacle(), missing)
	driver := func(tolerations string) {
		t.Helper()
		content := filepath.Join(t.TempDir(), "driver.yaml")
		require.NoError(t, os.WriteFile(content, []byte(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: driver, namespace: default}, spec: {
			selector: {matchLabels: {app: driver}},
			template: {metadata: {labels: {app: driver}}, spec: {nodeSelector: {pool: nowhere}, tolerations: [`+tolerations+`], containers: [{name: driver, image: driver}]}}}}`), 0o600))
		nodekeep.MustKubectl(t, "apply", "--server-side", "-f", content)
	}
	driver("")
	defer nodekeep.MustKubectl(t, "-n", "default", "delete", "daemonset", "driver")
	assert.Contains(t, obstacle(), deadlock)
	driver("{key: nodekeep.dev/unverified, operator: Exists}")
	assert.Empty(t, obstacle())
}

// A DaemonSet that does not tolerate the taint gets no Pod on the Node. So nothing waits for it.
func TestAProfileThatWaitsForEachDaemonSetHasNoObstacleByThat(t *testing.T) {
	for _, entry := range []string{"auto", "nobody/*"} {
		file := profileFile(t, "{name: every, nodeSelector: pool=nowhere, wait: {daemonSets: ["+entry+"]}, checks: [{name: api, api: {}}]}")
		for _, sentence := range checkObstacles(t, file) {
			assert.NotContains(t, sentence, "DaemonSet", entry)
		}
	}
}

// What a user may not read is named, and no finding. The shipped role is enough.
func TestWhatMayNotBeReadOfProfilesIsNamedAndTheRoleOfViewersIsEnough(t *testing.T) {
	file := profileFile(t, "{name: web, nodeSelector: pool=nowhere, wait: {daemonSets: [default/none]}, checks: [{name: web, service: {name: default/none, port: 80}}]}")
	const user = "ursula"
	bind := func(args ...string) {
		t.Helper()
		nodekeep.MustKubectl(t, append([]string{"create"}, args...)...)
	}
	bind("clusterrole", user, "--verb=get,list", "--resource=nodes,nodepolicies.nodekeep.dev")
	bind("clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	bind("rolebinding", user, "--clusterrole=nodekeep-viewer-namespaced", "--user="+user, "-n", harness.Namespace)
	defer nodekeep.MustKubectl(t, "delete", "clusterrole,clusterrolebinding", user)
	defer nodekeep.MustKubectl(t, "-n", harness.Namespace, "delete", "rolebinding", user)
	var a harness.Answer
	check := func(done func() bool) {
		t.Helper()
		harness.Eventually(t, func() bool { // the API server takes moments to follow what was granted
			a = nodekeep.Command(t, "", "", "check", file, "--against-cluster", "--as="+user)
			return a.Code == 0 && done()
		}, harness.Settles, 200*time.Millisecond, "%s%s", &a.Out, &a.ErrOut)
	}
	check(func() bool { return strings.Contains(a.ErrOut, "is not known") })
	assert.Contains(t, a.ErrOut, "Whether the profiles can pass in this cluster is not known: you may not get services in namespace default")
	assert.Contains(t, a.ErrOut, "you may not get daemonsets.apps in namespace default")
	assert.NotContains(t, a.Out, "does not exist")

	bind("clusterrolebinding", user+"-views", "--clusterrole=nodekeep-viewer", "--user="+user)
	defer nodekeep.MustKubectl(t, "delete", "clusterrolebinding", user+"-views")
	check(func() bool { return a.ErrOut == "" })
	assert.Contains(t, a.Out, "profile web, check web: Service default/none does not exist: no Node passes. Correct the name in the check, or create the Service.")
	assert.Contains(t, a.Out, "profile web: it waits for DaemonSet default/none, which does not exist: its Nodes wait for ever.")
}
