package observe

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// The API server merges the oldest entries of managedFields. What it has lost is no client.
func TestALabelWhoseManagerIsLostIsWhoseItWasBefore(t *testing.T) {
	const pool = "example.com/pool"
	p := policy.Default()
	brings := record.Stamp{Brought: labels{pool: "k"}}
	gives := record.Stamp{}.Merge(labels{pool: "k"}, record.Record{}, 0)
	prev := merged(t, record.Record{}, FromNode(object("z", 3, labels{pool: "k"}, wrote("kubectl-label", 1, pool))), p)
	current := merged(t, record.Record{}, FromNode(object("a", 5, labels{pool: "k"}, wrote("kubectl-label", 1, pool))), p)
	o := merged(t, record.Record{}, FromNode(object("a", 5, labels{pool: "c"}, wrote("kubectl-label", 1, pool))), p)
	for name, c := range map[string]struct {
		r       record.Record
		value   string
		stamp   *record.Stamp
		version record.Version // at which the record has it then; 0: it has nothing
	}{
		"the kubelet's own":                                     {record.Record{}, "k", &brings, 0},
		"the kubelet's own, which a client changed":             {record.Record{}, "c", &brings, 9},
		"the kubelet's own, which the record has from before":   {prev, "k", &brings, 3},
		"the kubelet's own, which a client had applied as well": {current, "k", &brings, 9},
		"the kubelet's own, which it set again over a client's": {o, "k", &brings, 5},
		"what nodekeep gave":                                    {prev, "k", &gives, 3},
		"what nodekeep gave, which a client changed":            {prev, "c", &gives, 9},
		"what the Node neither brought nor was given":           {record.Record{}, "k", &record.Stamp{}, 9},
		"what no stamp says anything of":                        {record.Record{}, "k", nil, 9},
	} {
		t.Run(name, func(t *testing.T) {
			for _, manager := range []string{"ancient-changes", "before-first-apply"} {
				n := object("a", 9, labels{pool: c.value}, wrote(manager, 1, pool))
				if c.stamp != nil {
					n = stamped(n, *c.stamp)
				}
				for form, n := range inMemory(n) {
					e, _ := merged(t, c.r, n, p).Entry(pool)
					assert.Equal(t, c.version, e.Version, form)
				}
			}
		})
	}
	combined := stamped(object("a", 9, labels{pool: "k"}, wrote("ancient-changes", 1, pool), wrote("kubectl", 2, pool)), brings)
	assert.Equal(t, labels{pool: "k"}, merged(t, record.Record{}, FromNode(combined), p).Items(), "a client that is known has it too")
	recorded := merged(t, record.Record{}, FromNode(object("z", 3, labels{worker: "a"}, wrote("kubectl-label", 1, worker))), p)
	forged := stamped(object("a", 9, labels{worker: "b"}, wrote("ancient-changes", 1, worker)), record.Stamp{Brought: labels{worker: "b"}})
	assert.Equal(t, labels{worker: "b"}, merged(t, recorded, FromNode(forged), p).Items(), "no kubelet brings it, whatever a stamp says")
}

func TestAKubeletsOwnLabelsAreThoseThatAClientMightHaveSet(t *testing.T) {
	const pool, zone = "example.com/pool", "topology.kubernetes.io/zone"
	n := FromNode(object("a", 5, labels{pool: "k", "both": "1", "client": "1", "known": "1", zone: "z", corev1.LabelHostname: "n"},
		wrote("kubelet", 1, pool, "both", "known", zone, corev1.LabelHostname), wrote("kubectl-label", 2, "both", "client")))
	known := record.New("n", record.Object{UID: "z", Version: 3}, labels{"known": "2"})
	assert.Equal(t, labels{pool: "k"}, n.KubeletLabels(known, policy.Default()))
	plural := labels{}
	var keys []string
	for i := range policy.MaxKubeletItems + 1 {
		key := "l" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		plural[key], keys = "v", append(keys, key)
	}
	assert.Empty(t, FromNode(object("a", 5, plural, wrote("kubelet", 1, keys...))).KubeletLabels(known, policy.Default()), "a kubelet must not fill the stamp")
}

func TestAKubeletsOwnTaintsAreThoseThatWereRemovedBeforeWhileOnlyTheKubeletHasWrittenTheList(t *testing.T) {
	const start, o = "example.com/starting:NoSchedule", "example.com/new:NoSchedule"
	removed := record.Forget(record.New("n", record.Object{UID: "z", Version: 3}, labels{start: ""}), []string{start})
	for name, c := range map[string]struct {
		writers []string
		want    labels
	}{
		"the kubelet alone":                       {[]string{"kubelet"}, labels{start: ""}},
		"the supervisor of k3s":                   {[]string{"k3s"}, labels{start: ""}},
		"nobody is known":                         {nil, nil},
		"an operator wrote the list since":        {[]string{"kubectl-taint"}, nil},
		"the node lifecycle controller did":       {[]string{"kube-controller-manager"}, nil},
		"the cloud controller manager did":        {[]string{"cloud-controller-manager"}, nil},
		"the kubelet, and an operator applied it": {[]string{"kubelet", "argocd-controller"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []metav1.ManagedFieldsEntry
			for _, manager := range c.writers {
				entries = append(entries, wrote(manager, 1, "taints"))
			}
			for from, n := range inMemory(object("a", 5, labels{start: "", o: ""}, entries...)) {
				assert.Equal(t, c.want, n.KubeletLabels(removed, policy.Default()), from)
			}
		})
	}
}
