package policy

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestACordonIsKeptOnlyIfThePolicySaysSo(t *testing.T) {
	for sections, want := range map[string]bool{"": false, "cordon: ignore": false, "cordon: keep": true, "cordon: keep\ntaints: {keep: []}": true} {
		p := loadPolicy(t, sections)
		keeps, reason := p.Keeps(Cordon)
		assert.Equal(t, want, keeps, "%s: %s", sections, reason)
		assert.Equal(t, map[bool]string{true: "cordon says keep", false: "cordon says ignore"}[want], reason, "cordon: keep would keep it, and nothing else")
		assert.Equal(t, want, p.Restores(Cordon), sections)
		keeps, _ = p.Keeps("node.kubernetes.io/unschedulable:NoExecute")
		assert.False(t, keeps, "%s: that is a taint", sections)
	}
	_, err := Load([]byte(policytest.Manifest("cordon: always")), DefaultGate)
	require.ErrorContains(t, err, `spec.cordon: Unsupported value: "always"`)

	taint := corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}
	assert.Equal(t, map[string]string{}, ItemsOf(nil, []corev1.Taint{taint}, false), "the field counts, not the taint that follows it")
	assert.Equal(t, map[string]string{Cordon: "", "a": "1"}, ItemsOf(map[string]string{"a": "1"}, []corev1.Taint{taint}, true))
	labels, taints, unschedulable := SplitItems(map[string]string{Cordon: "", "a": "1", "t:NoSchedule": "2"})
	assert.Equal(t, map[string]string{"a": "1"}, labels)
	assert.Equal(t, []corev1.Taint{{Key: "t", Value: "2", Effect: "NoSchedule"}}, taints)
	assert.True(t, unschedulable)
}

func TestKeeps(t *testing.T) {
	const (
		isolated = "node-restriction.kubernetes.io/tier"
		teams    = "team.node-restriction.kubernetes.io/tier"
		boundary = "it is an isolation boundary, kept only if labels.keep names node-restriction.kubernetes.io"
	)
	tests := map[string]struct {
		labels string // the labels section of the policy file
		key    string
		want   bool
		reason string
	}{
		"everything is kept where the file says nothing":     {`{}`, "disktype", true, "labels.keep has *"},
		"a list of keys keeps nothing else":                  {`{keep: [disktype]}`, "dedicated", false, "labels.keep does not select it"},
		"a domain keeps its keys":                            {`{keep: [example.com/*]}`, "example.com/x", true, "labels.keep has example.com/*"},
		"a key that is ignored is left out":                  {`{ignore: [disktype]}`, "disktype", false, "labels.ignore has disktype"},
		"a domain that is ignored is left out":               {`{ignore: ["*.example.com/*"]}`, "a.example.com/x", false, "labels.ignore has *.example.com/*"},
		"ignore leaves out what keep names exactly":          {`{keep: [disktype], ignore: [disk*]}`, "disktype", false, "labels.ignore has disk*"},
		"ignore leaves out an isolation label too":           {`{keep: [` + isolated + `], ignore: ["*"]}`, isolated, false, "labels.ignore has *"},
		"an exact name keeps what others own":                {`{keep: [topology.kubernetes.io/zone]}`, "topology.kubernetes.io/zone", true, "labels.keep names it"},
		"a domain does not keep what others own":             {`{keep: [karpenter.sh/*]}`, "karpenter.sh/nodepool", false, "it belongs to Karpenter"},
		"what operators own must be selected all the same":   {`{keep: [disktype]}`, "node-role.kubernetes.io/worker", false, "labels.keep does not select it"},
		"our own labels are nobody's":                        {`{}`, "nodekeep.dev/anything", false, "it belongs to nodekeep itself"},
		"an isolation label is not kept by default":          {`{}`, isolated, false, boundary},
		"nor by the wildcard":                                {`{keep: ["*"]}`, isolated, false, boundary},
		"nor by a wildcard over its domain":                  {`{keep: ["*.kubernetes.io/*"]}`, isolated, false, boundary},
		"nor by most of its domain":                          {`{keep: ["node-restriction.*"]}`, isolated, false, boundary},
		"nor by a domain that merely ends so":                {`{keep: [evil-node-restriction.kubernetes.io/*]}`, isolated, false, boundary},
		"nor by a wildcard for domains that merely end so":   {`{keep: ["*-node-restriction.kubernetes.io/*"]}`, teams, false, boundary},
		"a team's isolation label is not kept by default":    {`{}`, teams, false, boundary},
		"a team's is not kept by the bare domain":            {`{keep: [node-restriction.kubernetes.io/*]}`, teams, false, boundary},
		"the bare one is not kept by the teams' domains":     {`{keep: ["*.node-restriction.kubernetes.io/*"]}`, isolated, false, boundary},
		"its domain names an isolation label":                {`{keep: [node-restriction.kubernetes.io/*]}`, isolated, true, "labels.keep names node-restriction.kubernetes.io/*"},
		"its own name names an isolation label":              {`{keep: [` + isolated + `]}`, isolated, true, "labels.keep names " + isolated},
		"but not another one":                                {`{keep: [` + isolated + `]}`, "node-restriction.kubernetes.io/pool", false, boundary},
		"all teams' domains name a team's":                   {`{keep: ["*.node-restriction.kubernetes.io/*"]}`, teams, true, "labels.keep names *.node-restriction.kubernetes.io/*"},
		"one team's domain names it":                         {`{keep: [team.node-restriction.kubernetes.io/*]}`, teams, true, "labels.keep names team.node-restriction.kubernetes.io/*"},
		"but not another team's":                             {`{keep: [team.node-restriction.kubernetes.io/*]}`, "other.node-restriction.kubernetes.io/x", false, boundary},
		"a name that is listed next to a wildcard is enough": {`{keep: ["*", node-restriction.kubernetes.io/t*]}`, isolated, true, "labels.keep names node-restriction.kubernetes.io/t*"},
		"a key that merely looks like an isolation label":    {`{}`, "evil-node-restriction.kubernetes.io/x", false, "it belongs to Kubernetes"},
		"such a key is kept by its name and by that alone":   {`{keep: [evil-node-restriction.kubernetes.io/x]}`, "evil-node-restriction.kubernetes.io/x", true, "labels.keep names it"},
		"a pattern for such a key hands out nothing":         {`{keep: [evil-node-restriction.kubernetes.io/*]}`, "evil-node-restriction.kubernetes.io/x", false, "it belongs to Kubernetes"},
		"a key without a domain that is named like the one":  {`{}`, "node-restriction.kubernetes.io", true, "labels.keep has *"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			keeps, reason := policyWith(t, tt.labels).Keeps(tt.key)
			assert.Equal(t, tt.want, keeps)
			assert.Equal(t, tt.reason, reason)
		})
	}
}

func TestTheZeroPolicyKeepsNothing(t *testing.T) {
	assert.Empty(t, kept(Policy{}, Metadata{Items: map[string]string{"disktype": "ssd"}}))
}

func TestJudgeByOwners(t *testing.T) {
	tests := map[string]struct {
		labels   string   // the labels section of the policy file
		managers []string // the owners of the label "dedicated"
		want     bool
	}{
		"a label without an owner is kept, as a webhook's have none":      {`{}`, nil, true},
		"an operator's label is kept":                                     {`{}`, []string{"kubectl-label"}, true},
		"kubeadm labels once and never again, so its labels are kept":     {`{}`, []string{"kubeadm"}, true},
		"a kubelet's own label is left out":                               {`{}`, []string{"kubelet"}, false},
		"a kubelet's label that an operator confirmed is kept":            {`{}`, []string{"kubelet", "kubectl"}, true},
		"what OpenStack's cloud controller set is left out":               {`{}`, []string{"openstack-cloud-controller-manager"}, false},
		"what the cloud controller and the kubelet set is left out":       {`{}`, []string{"cloud-controller-manager", "kubelet"}, false},
		"what the supervisor of k3s set is left out":                      {`{}`, []string{"k3s-supervisor@worker-1"}, false},
		"what a manager set whose name merely begins like one is kept":    {`{}`, []string{"kubelet-extra"}, true},
		"what Node Feature Discovery set is left out":                     {`{}`, []string{"nfd-master"}, false},
		"ignoreManagers replaces the list":                                {`{ignoreManagers: [robot]}`, []string{"kubelet"}, true},
		"ignoreManagers names others":                                     {`{ignoreManagers: ["ro*t"]}`, []string{"robot"}, false},
		"with no ignoreManagers nobody is ignored":                        {`{ignoreManagers: []}`, []string{"kubelet"}, true},
		"a key that keep names is left out too while a kubelet alone has": {`{keep: [dedicated]}`, []string{"kubelet"}, false},
		"no owner makes up for a key that is ignored":                     {`{ignore: [dedicated]}`, []string{"kubectl"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			node := Metadata{Items: map[string]string{"dedicated": "ci", "kubernetes.io/hostname": "worker-1"}}
			if tt.managers != nil {
				node.Owners = map[string][]string{"dedicated": tt.managers, "gone": {"kubectl"}}
			}
			want := map[string]string{}
			if tt.want {
				want["dedicated"] = "ci"
			}
			assert.Equal(t, want, kept(policyWith(t, tt.labels), node))
		})
	}
}

func TestJudgeLeavesItsInputAlone(t *testing.T) {
	node := Metadata{
		Items:  map[string]string{"dedicated": "ci", "agentpool": "a", "disktype": "ssd"},
		Owners: map[string][]string{"disktype": {"kubelet"}},
	}
	labels, owners := maps.Clone(node.Items), map[string][]string{"disktype": {"kubelet"}}
	require.Equal(t, map[string]string{"dedicated": "ci"}, kept(Default(), node))
	assert.Equal(t, labels, node.Items)
	assert.Equal(t, owners, node.Owners)
}

func TestOwnedByOperators(t *testing.T) {
	assert.False(t, Default().OwnedByPeople(nil), "nobody is no operator")
	assert.False(t, Default().OwnedByPeople([]string{"kubelet", "aws-cloud-controller-manager"}), "these set their labels again")
	assert.True(t, Default().OwnedByPeople([]string{"kubelet", "kubectl-edit"}))
}

func BenchmarkJudge(b *testing.B) {
	node := Metadata{Items: map[string]string{}}
	for _, key := range slices.Concat([]string{"dedicated", "disktype", "team.owner", "example.com/rack", "node-role.kubernetes.io/worker"},
		[]string{"kubernetes.io/hostname", "kubernetes.io/os", "topology.kubernetes.io/zone", "karpenter.sh/nodepool", "agentpool"}) {
		node.Items[key] = "x"
	}
	p := Default()
	b.ReportAllocs()
	for b.Loop() {
		kept(p, node)
	}
}

// kept returns the items of a Node that the policy remembers.
func kept(p Policy, node Metadata) map[string]string {
	items := maps.Clone(node.Items)
	maps.DeleteFunc(items, func(item, _ string) bool { return !p.Judge(node, item).Keeps })
	return items
}

// loadPolicy returns the policy of a file with these sections.
func loadPolicy(t testing.TB, sections string) Policy {
	t.Helper()
	p, err := Load([]byte(policytest.Manifest(sections)), DefaultGate)
	require.NoError(t, err)
	return p
}

// policyWith returns the policy of a file with this labels section, in YAML's flow style.
func policyWith(t testing.TB, labels string) Policy {
	t.Helper()
	return loadPolicy(t, "labels: "+labels)
}

// policyOf returns the policy of a file with this taints section, in YAML's flow style.
func policyOf(t testing.TB, taints string) Policy {
	t.Helper()
	return loadPolicy(t, "taints: "+taints)
}
