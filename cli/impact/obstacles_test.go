package impact

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/verify"
)

// asked is a policy with one profile, and a cluster in which all that it names is there.
type asked struct {
	profiles string
	facts    ProfileFacts
	nodes    []corev1.Node
	now      time.Time
}

const (
	asksDNS      = "{name: dns, dns: {names: [kubernetes.default.svc], servers: each}}"
	asksDNSOnce  = "{name: dns, dns: {names: [kubernetes.default.svc]}}"
	asksService  = "{name: web, service: {name: apps/web, port: 80}}"
	asksHeadless = "{name: db, service: {name: apps/db, port: 5432, endpoints: 2}}"
	asksAPI      = "{name: api, api: {}}"
)

func profileWith(wait string, checks ...string) string {
	return "{name: gpu, nodeSelector: pool=gpu, wait: {" + wait + "}, checks: [" + strings.Join(checks, ", ") + "]}"
}

func serviceOf(ip string, ready int, ports ...corev1.ServicePort) *ServiceFacts {
	return &ServiceFacts{Service: &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{ip}, Ports: ports}}, Ready: &ready}
}

// rightly returns a cluster in which the profiles can pass.
func rightly(profiles ...string) *asked {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	daemonSet := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"kubernetes.io/os": "linux"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}}}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: map[string]string{"pool": "gpu", "kubernetes.io/os": "linux"}, CreationTimestamp: metav1.Time{Time: now.Add(-time.Hour)}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: "KernelDeadlock", Status: corev1.ConditionFalse}}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("60Gi")}
	return &asked{
		profiles: strings.Join(profiles, ", "),
		facts: ProfileFacts{
			DNS: "kube-system/kube-dns", ChecksNamespace: verify.Namespace,
			Services: map[string]*ServiceFacts{
				"kube-system/kube-dns": serviceOf("10.0.0.10", 2, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolTCP}),
				"default/kubernetes":   serviceOf("10.0.0.1", 1, corev1.ServicePort{Port: 443}),
				"apps/web":             serviceOf("10.0.0.2", 1, corev1.ServicePort{Port: 80}),
				"apps/db":              serviceOf(corev1.ClusterIPNone, 1, corev1.ServicePort{Port: 5432}),
			},
			DaemonSets: map[string]*appsv1.DaemonSet{"kube-system/cilium": daemonSet},
		},
		nodes: []corev1.Node{node}, now: now,
	}
}

// answer returns each obstacle as what it hinders, and its sentence.
func (a *asked) answer(t *testing.T) (sentences []string) {
	t.Helper()
	p := statetest.Load(t, "verify: {profiles: ["+a.profiles+"]}")
	selected := NewSelectedNodes(p.Verify(), a.facts, string(p.Gate()), a.now)
	for i := range a.nodes {
		selected.Add(&a.nodes[i])
	}
	for _, obstacle := range Obstacles(p.Verify(), a.facts, selected) {
		assert.NotEmpty(t, obstacle.Next)
		assert.Equal(t, len(obstacle.Commands) > 0, strings.HasSuffix(obstacle.Next, ":"), obstacle.Text())
		sentences = append(sentences, string(obstacle.Hinders)+": "+obstacle.Sentence())
	}
	return sentences
}

// allSections returns a profile that asks for all that a cluster may lack.
func allSections() string {
	return profileWith("daemonSets: [kube-system/cilium], conditions: {KernelDeadlock: 'False'}, allocatable: {nvidia.com/gpu: 4, memory: 60Gi}",
		asksDNS, asksService, asksHeadless, asksAPI, "{name: tcp, tcp: 'web.apps.svc.cluster.local:80'}", "{name: http, http: {url: 'http://web.apps.svc/'}}")
}

func TestAProfileThatCanPassHasNoObstacle(t *testing.T) {
	assert.Empty(t, rightly(allSections()).answer(t))
}

func TestWhatIsNotKnownIsNoObstacle(t *testing.T) {
	a := rightly(allSections())
	a.facts = ProfileFacts{}
	a.nodes = nil
	assert.Empty(t, a.answer(t), "nothing could be read, and the cluster has no Node")
	p := statetest.Load(t, "verify: {profiles: ["+allSections()+"]}")
	assert.Empty(t, Obstacles(p.Verify(), rightly().facts, nil), "Nodes could not be read")
}

func TestObstaclesOfProfiles(t *testing.T) {
	empty := func(*asked) {}
	rest := func(service string) func(*asked) {
		return func(a *asked) { a.facts.Services[service] = nil }
	}
	ready := func(service string, n int) func(*asked) {
		return func(a *asked) { a.facts.Services[service].Ready = &n }
	}
	node := func(change func(*corev1.Node)) func(*asked) { return func(a *asked) { change(&a.nodes[0]) } }
	isNew := func(a *asked) {
		a.nodes[0].CreationTimestamp.Time = a.now.Add(-time.Minute)
		a.nodes[0].Spec.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	tolerating := func(tolerations ...corev1.Toleration) func(*asked) {
		return func(a *asked) { a.facts.DaemonSets["kube-system/cilium"].Spec.Template.Spec.Tolerations = tolerations }
	}
	const waitsForCilium, dns, dnsUnserved = "daemonSets: [kube-system/cilium]", "profile gpu, check dns: ", "it asks each server of the DNS Service kube-system/kube-dns, which has no ready endpoint: no Node passes before it has one"
	for name, test := range map[string]struct {
		profile string
		set     func(*asked)
		want    []string
	}{
		"the DNS Service is elsewhere": {
			profileWith("", asksDNS), rest("kube-system/kube-dns"),
			[]string{"all: " + dns + "it asks each server of the DNS Service kube-system/kube-dns, which does not exist: no Node passes"},
		},
		"the DNS Service is elsewhere, and only a cold start needs it": {
			profileWith("", asksDNSOnce), rest("kube-system/kube-dns"),
			[]string{"some: " + dns + "the DNS Service kube-system/kube-dns does not exist: while no Node takes workloads, the check is skipped, and Nodes open without it"},
		},
		"a check by address needs no DNS Service": {profileWith("", "{name: tcp, tcp: '192.0.2.1:80'}", "{name: six, http: {url: 'http://[2001:db8::1]:80/'}}"), rest("kube-system/kube-dns"), nil},
		"a check that is not required hinders nobody": {
			profileWith("", "{name: dns, required: false, dns: {names: [kubernetes.default.svc], servers: each}}", asksAPI), rest("kube-system/kube-dns"), nil,
		},
		"the DNS Service has no port 53": {
			profileWith("", asksDNS), func(a *asked) {
				a.facts.Services["kube-system/kube-dns"].Service.Spec.Ports[0].Port, a.facts.Services["kube-system/kube-dns"].Service.Spec.Ports[1].Port = 54, 54
			},
			[]string{"all: " + dns + "it asks each server of the DNS Service kube-system/kube-dns, which has no port 53: no Node passes"},
		},
		"the DNS Service has no endpoint although Nodes take workloads": {profileWith("", asksDNS), ready("kube-system/kube-dns", 0), []string{"some: " + dns + dnsUnserved}},
		"the DNS Service has no endpoint before a Node takes workloads": {
			profileWith("", asksDNS), func(a *asked) { ready("kube-system/kube-dns", 0)(a); isNew(a) }, nil,
		},
		"endpoints of the DNS Service could not be read": {profileWith("", asksDNS), func(a *asked) { a.facts.Services["kube-system/kube-dns"].Ready = nil }, nil},
		"the Service of a name does not exist": {
			profileWith("", "{name: dns, dns: {names: [web.apps.svc, web.apps.svc.cluster.local., web.apps.svc.example.com., example.com]}}"), rest("apps/web"),
			[]string{
				"all: " + dns + "the name web.apps.svc is that of Service apps/web, which does not exist: no Node passes",
				"all: " + dns + "the name web.apps.svc.cluster.local. is that of Service apps/web, which does not exist: no Node passes",
			},
		},
		"the Service of an address does not exist": {
			profileWith("", "{name: tcp, tcp: 'web.apps.svc:80'}", "{name: http, http: {url: 'https://web.apps.svc:8443/'}}"), rest("apps/web"),
			[]string{
				"all: profile gpu, check tcp: the name web.apps.svc is that of Service apps/web, which does not exist: no Node passes",
				"all: profile gpu, check http: the name web.apps.svc is that of Service apps/web, which does not exist: no Node passes",
			},
		},
		"the Service of a check does not exist": {profileWith("", asksService), rest("apps/web"), []string{"all: profile gpu, check web: Service apps/web does not exist: no Node passes"}},
		"the Service of a check has another port": {
			profileWith("", "{name: web, service: {name: apps/web, port: 8080}}"), empty, []string{"all: profile gpu, check web: Service apps/web has no TCP port 8080: no Node passes"},
		},
		"the port of a Service is UDP alone": {
			profileWith("", asksService), func(a *asked) { a.facts.Services["apps/web"].Service.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
			[]string{"all: profile gpu, check web: Service apps/web has no TCP port 80: no Node passes"},
		},
		"a headless Service is asked for no endpoint": {
			profileWith("", "{name: db, service: {name: apps/db, port: 5432}}"), empty,
			[]string{"all: profile gpu, check db: Service apps/db is headless, and the check asks no endpoints: no Node passes"},
		},
		"a Service has fewer endpoints than the check asks": {profileWith("", asksHeadless), empty, nil},
		"a Service has no endpoint": {
			profileWith("", asksService), ready("apps/web", 0), []string{"some: profile gpu, check web: Service apps/web has no ready endpoint: no Node passes before it has one"},
		},
		"a Service is a name of something else": {
			profileWith("", asksService), func(a *asked) {
				a.facts.Services["apps/web"].Service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}
			},
			[]string{"all: profile gpu, check web: Service apps/web is an ExternalName, which has neither a ClusterIP nor endpoints: no Node passes"},
		},
		"a DaemonSet does not exist": {
			profileWith(waitsForCilium, asksAPI), func(a *asked) { a.facts.DaemonSets["kube-system/cilium"] = nil },
			[]string{"all: profile gpu: it waits for DaemonSet kube-system/cilium, which does not exist: its Nodes wait for ever"},
		},
		"a DaemonSet and the profile wait for each other": {
			profileWith(waitsForCilium, asksAPI), tolerating(corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}),
			[]string{"all: profile gpu: it waits for DaemonSet kube-system/cilium, whose Pods do not tolerate its taint nodekeep.dev/unverified:NoSchedule: each waits for the other for ever"},
		},
		"a DaemonSet tolerates the taint of the profile": {profileWith(waitsForCilium, asksAPI), tolerating(corev1.Toleration{Key: verify.Taint, Operator: corev1.TolerationOpExists}), nil},
		"a DaemonSet selects other Nodes": {
			profileWith(waitsForCilium, asksAPI), node(func(n *corev1.Node) { n.Labels["kubernetes.io/os"] = "windows" }),
			[]string{"all: profile gpu: it waits for DaemonSet kube-system/cilium, whose nodeSelector or affinity excludes 1 Node, such as worker-1: such a Node waits for ever"},
		},
		"the affinity of a DaemonSet excludes a Node of several": {
			profileWith(waitsForCilium, asksAPI), func(a *asked) {
				a.nodes = append(a.nodes, *a.nodes[0].DeepCopy())
				a.nodes[1].Name = "worker-2"
				a.facts.DaemonSets["kube-system/cilium"].Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
						{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"worker-2"}}}},
					}},
				}}
			},
			[]string{"some: profile gpu: it waits for DaemonSet kube-system/cilium, whose nodeSelector or affinity excludes 1 Node, such as worker-2: such a Node waits for ever"},
		},
		"no Node has a resource": {
			profileWith("allocatable: {amd.com/gpu: 1}", asksAPI), empty,
			[]string{"all: profile gpu: it waits for the resource amd.com/gpu, which the one Node that it selects does not have: its Nodes wait for ever"},
		},
		"no Node has so much of a resource": {
			profileWith("allocatable: {memory: 64Gi}", asksAPI), empty,
			[]string{"all: profile gpu: it waits for 64Gi of memory, and the most that one of its Nodes has is 60Gi: its Nodes wait for ever"},
		},
		"no Node has a condition": {
			profileWith("conditions: {NetworkBroken: 'False'}", asksAPI), empty,
			[]string{"all: profile gpu: it waits for the condition NetworkBroken, which the one Node that it selects does not have: its Nodes wait for ever"},
		},
		"a Node that has just come has no resource yet": {profileWith("allocatable: {amd.com/gpu: 1}, conditions: {NetworkBroken: 'False'}", asksAPI), isNew, nil},
		"a Node that is not Ready shows nothing": {
			profileWith("allocatable: {amd.com/gpu: 1}", asksAPI), node(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }), nil,
		},
		"a Node that waits for too long shows what it lacks": {
			profileWith("allocatable: {amd.com/gpu: 1}", asksAPI), func(a *asked) { isNew(a); a.nodes[0].CreationTimestamp.Time = a.now.Add(-time.Hour) },
			[]string{"all: profile gpu: it waits for the resource amd.com/gpu, which the one Node that it selects does not have: its Nodes wait for ever"},
		},
		"the cluster has no Node yet": {allSections(), func(a *asked) { a.nodes = nil }, nil},
		"a profile selects no Node": {
			profileWith("allocatable: {amd.com/gpu: 1}", asksAPI), node(func(n *corev1.Node) { n.Labels["pool"] = "cpu" }),
			[]string{"none: profile gpu: it selects no Node; the cluster has 1 Node"},
		},
		"an image cannot be pulled": {
			profileWith("", asksAPI), func(a *asked) {
				isNew(a)
				a.nodes[0].Annotations = map[string]string{verify.Annotation: verify.Progress{Attempts: 1, Last: &verify.Last{
					Result: verify.VerdictInconclusive, Reason: string(verify.CauseImage), Message: "example.com/nodekeep:1 of container nodekeep-check: ImagePullBackOff",
				}}.String()}
			},
			[]string{"some: profile gpu: an image of its checks cannot be pulled on 1 Node, such as worker-1: example.com/nodekeep:1 of container nodekeep-check: ImagePullBackOff"},
		},
		"a worker Pod did not start for another reason": {
			profileWith("", asksAPI), func(a *asked) {
				isNew(a)
				a.nodes[0].Annotations = map[string]string{verify.Annotation: verify.Progress{Attempts: 1, Last: &verify.Last{Result: verify.VerdictInconclusive, Reason: string(verify.CauseNotStarted)}}.String()}
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := rightly(test.profile)
			test.set(a)
			assert.Equal(t, test.want, a.answer(t))
		})
	}
}

func TestTheSameObstacleOfSeveralProfilesIsOneAndNamesTheServiceOfThePlatform(t *testing.T) {
	a := rightly(profileWith("", asksDNS), "{name: rest, checks: ["+asksDNS+"]}")
	a.facts.Services["kube-system/kube-dns"] = nil
	p := statetest.Load(t, "verify: {profiles: ["+a.profiles+"]}")
	found := Obstacles(p.Verify(), a.facts, nil)
	require.Len(t, found, 1)
	assert.Equal(t, []string{"gpu", "rest"}, found[0].Profiles)
	assert.Equal(t, []string{"kubectl get services --all-namespaces -l k8s-app=kube-dns"}, found[0].Commands)
	a.facts.OtherDNS = []string{"kube-system/rke2-coredns-rke2-coredns"}
	found = Obstacles(p.Verify(), a.facts, nil)
	require.Len(t, found, 1)
	assert.Equal(t, "profiles gpu, rest, check dns: it asks each server of the DNS Service kube-system/kube-dns, which does not exist: no Node passes. "+
		"Set the value verify.dnsService=kube-system/rke2-coredns-rke2-coredns of the chart: this Service exists.", found[0].Text())
}

func TestThePlatformsOfTheDNSServiceLeaveOutTheOneThatWasAsked(t *testing.T) {
	assert.Contains(t, PlatformDNS("kube-system/kube-dns"), "openshift-dns/dns-default")
	assert.NotContains(t, PlatformDNS("kube-system/kube-dns"), "kube-system/kube-dns")
	assert.Contains(t, PlatformDNS("other/dns"), "kube-system/kube-dns")
}
