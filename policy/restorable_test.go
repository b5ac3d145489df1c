package policy

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

func TestMissing(t *testing.T) {
	const role, isolated = "node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/tier"
	type values = map[string]string
	type reasons = map[string]Reason
	restoreStored, disabled := `labels: {onConflict: restoreStored}`, `labels: {protected: never}`
	tests := map[string]struct {
		sections            string // of the policy file
		current, remembered values
		occasion            Occasion
		want                Restore // nil maps stand for empty ones
	}{
		"a Node that lacks nothing":                {"", values{"a": "1"}, values{"a": "1"}, CreateByKubelet, Restore{}},
		"no record":                                {"", values{"a": "1"}, nil, CreateByKubelet, Restore{}},
		"a label that the Node lacks":              {"", nil, values{"a": "1"}, CreateByKubelet, Restore{Add: values{"a": "1"}}},
		"a label without a value":                  {"", nil, values{"a": ""}, CreateByOther, Restore{Add: values{"a": ""}}},
		"an empty value on the Node is a value":    {"", values{"a": ""}, values{"a": "1"}, CreateByOther, Restore{Withheld: reasons{"a": Conflict}}},
		"other labels of the Node do not matter":   {"", values{"b": "1"}, values{"a": "1"}, Live, Restore{Add: values{"a": "1"}}},
		"the Node's own value wins at CREATE":      {"", values{"a": "2"}, values{"a": "1"}, CreateByKubelet, Restore{Withheld: reasons{"a": Conflict}}},
		"the Node's own value wins later":          {"", values{"a": "2"}, values{"a": "1"}, Live, Restore{Withheld: reasons{"a": Conflict}}},
		"the stored value wins where so decided":   {restoreStored, values{"a": "2"}, values{"a": "1"}, CreateByKubelet, Restore{Add: values{"a": "1"}}},
		"the same on anyone else's CREATE":         {restoreStored, values{"a": "2"}, values{"a": "1"}, CreateByOther, Restore{Add: values{"a": "1"}}},
		"but never on a Node that lives":           {restoreStored, values{"a": "2"}, values{"a": "1"}, Live, Restore{Withheld: reasons{"a": Conflict}}},
		"a role must wait on a kubelet's CREATE":   {"", nil, values{role: ""}, CreateByKubelet, Restore{Deferred: values{role: ""}}},
		"a role goes on with anyone else's CREATE": {"", nil, values{role: ""}, CreateByOther, Restore{Add: values{role: ""}}},
		"a role is given by capture":               {"", nil, values{role: ""}, Live, Restore{Add: values{role: ""}}},
		"a role that the kubelet could not bring":  {"", values{role: ""}, values{role: ""}, CreateByKubelet, Restore{}},
		"never means never on a kubelet's CREATE":  {disabled, nil, values{role: "", "a": "1"}, CreateByKubelet, Restore{Add: values{"a": "1"}, Withheld: reasons{role: NeverRestored}}},
		"never means never on anyone's CREATE":     {disabled, nil, values{role: ""}, CreateByOther, Restore{Withheld: reasons{role: NeverRestored}}},
		"never means never for capture":            {disabled, nil, values{role: ""}, Live, Restore{Withheld: reasons{role: NeverRestored}}},
		"a label that the policy defers":           {`labels: {defer: [a]}`, nil, values{"a": "1", "b": "1"}, CreateByKubelet, Restore{Add: values{"b": "1"}, Deferred: values{"a": "1"}}},
		"a glob defers":                            {`labels: {defer: ["*.example.com/*"]}`, nil, values{"a.example.com/x": "1", "example.com/x": "1"}, CreateByKubelet, Restore{Add: values{"example.com/x": "1"}, Deferred: values{"a.example.com/x": "1"}}},
		"not on anyone else's CREATE":              {`labels: {defer: [a]}`, nil, values{"a": "1"}, CreateByOther, Restore{Add: values{"a": "1"}}},
		"capture gives it":                         {`labels: {defer: [a]}`, nil, values{"a": "1"}, Live, Restore{Add: values{"a": "1"}}},
		"never is for protected labels only":       {`labels: {defer: ["*"], protected: never}`, nil, values{"a": "1", role: ""}, CreateByKubelet, Restore{Deferred: values{"a": "1"}, Withheld: reasons{role: NeverRestored}}},
		"no pattern defers a taint":                {`labels: {defer: ["*"]}`, nil, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a deferred label that the kubelet brings": {`labels: {defer: [a], onConflict: restoreStored}`, values{"a": "2"}, values{"a": "1"}, CreateByKubelet, Restore{Withheld: reasons{"a": Conflict}}},
		"the same on an operator's CREATE":         {`labels: {defer: [a], onConflict: restoreStored}`, values{"a": "2"}, values{"a": "1"}, CreateByOther, Restore{Add: values{"a": "1"}}},
		"a role with another value":                {"", values{role: "x"}, values{role: ""}, Live, Restore{Withheld: reasons{role: Conflict}}},
		"an isolation label that nobody named":     {"", nil, values{"node-restriction.kubernetes.io/tier": "gold"}, Live, Restore{Withheld: reasons{"node-restriction.kubernetes.io/tier": NotKept}}},
		"one that is named, on who knows what":     {`labels: {keep: [node-restriction.kubernetes.io/*]}`, nil, values{"node-restriction.kubernetes.io/tier": "gold"}, CreateByKubelet, Restore{Withheld: reasons{"node-restriction.kubernetes.io/tier": NotSameMachine}}},
		"a key that is no longer kept":             {`labels: {ignore: [a]}`, nil, values{"a": "1"}, Live, Restore{Withheld: reasons{"a": NotKept}}},
		"what says what the machine before was":    {"", nil, values{"node-ready/verified": "1", "kubernetes.io/os": "linux"}, CreateByKubelet, Restore{Withheld: reasons{"node-ready/verified": NotKept, "kubernetes.io/os": NotKept}}},
		"what an operator set in a catalogued key": {"", nil, values{"topology.kubernetes.io/zone": "a", "app.kubernetes.io/name": "x"}, CreateByKubelet, Restore{Add: values{"topology.kubernetes.io/zone": "a"}, Deferred: values{"app.kubernetes.io/name": "x"}}},
		"what a component brings before it":        {"", values{"topology.kubernetes.io/zone": "b"}, values{"topology.kubernetes.io/zone": "a"}, CreateByKubelet, Restore{Withheld: reasons{"topology.kubernetes.io/zone": Conflict}}},
		"such a key that keep does not select":     {`labels: {keep: [rack]}`, nil, values{"topology.kubernetes.io/zone": "a"}, CreateByKubelet, Restore{Withheld: reasons{"topology.kubernetes.io/zone": NotKept}}},
		"not kept comes before the conflict":       {`labels: {ignore: [a]}`, values{"a": "2"}, values{"a": "1"}, Live, Restore{Withheld: reasons{"a": NotKept}}},
		"a value that is no label value":           {"", nil, values{"a": "two words", "b": "1"}, CreateByKubelet, Restore{Add: values{"b": "1"}, Withheld: reasons{"a": Invalid}}},
		"a value that is too long":                 {"", nil, values{"a": strings.Repeat("x", 64)}, Live, Restore{Withheld: reasons{"a": Invalid}}},
		"a key that is no label key":               {"", nil, values{"a/b/c": "1", "": "1", "-a": "1", "Ex.com/a": "1"}, CreateByKubelet, Restore{Withheld: reasons{"a/b/c": Invalid, "": Invalid, "-a": Invalid, "Ex.com/a": Invalid}}},
		"invalid comes before everything":          {`labels: {ignore: ["*"]}`, values{"a": "2"}, values{"a": "!"}, Live, Restore{Withheld: reasons{"a": Invalid}}},
		"one Node with all of it": {
			`labels: {ignore: [old]}`, values{"same": "1", "other": "2"},
			values{"same": "1", "other": "1", "lost": "1", role: "", "old": "1", "bad": "!"}, CreateByKubelet,
			Restore{Add: values{"lost": "1"}, Deferred: values{role: ""}, Withheld: reasons{"other": Conflict, "old": NotKept, "bad": Invalid}},
		},
		"a taint that the Node lacks":                {"", nil, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"another effect of the key is another taint": {"", values{"a:NoExecute": "1"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a label of the key is another thing":        {"", values{"a": "2"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a taint of the key is no label":             {"", values{"a:NoSchedule": "2"}, values{"a": "1"}, CreateByKubelet, Restore{Add: values{"a": "1"}}},
		"a stored taint wins where so decided":       {restoreStored, values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a role's taint need not wait as its label":  {"", nil, values{role + ":NoSchedule": "", role: ""}, CreateByKubelet, Restore{Add: values{role + ":NoSchedule": ""}, Deferred: values{role: ""}}},
		"never is for labels":                        {disabled, nil, values{role + ":NoSchedule": "", role: ""}, CreateByKubelet, Restore{Add: values{role + ":NoSchedule": ""}, Withheld: reasons{role: NeverRestored}}},
		"an isolation key is a plain taint":          {"", nil, values{isolated + ":NoSchedule": "gold"}, CreateByKubelet, Restore{Add: values{isolated + ":NoSchedule": "gold"}}},
		"it needs no proof of the machine":           {"labels: {keep: [node-restriction.kubernetes.io/*]}", nil, values{isolated + ":NoSchedule": "gold", isolated: "gold"}, Live, Restore{Add: values{isolated + ":NoSchedule": "gold"}, Withheld: reasons{isolated: NotSameMachine}}},
		"a taint that is no longer kept":             {"taints: {ignore: [a]}", nil, values{"a:NoSchedule": "1"}, Live, Restore{Withheld: reasons{"a:NoSchedule": NotKept}}},
		"a taint that others own by now":             {"", nil, values{"karpenter.sh/x:NoSchedule": "1"}, CreateByKubelet, Restore{Withheld: reasons{"karpenter.sh/x:NoSchedule": NotKept}}},
		"a taint that is added once by now":          {`taints: {register: [{taint: "a=1:NoSchedule"}]}`, nil, values{"a:NoSchedule": "1", "a:NoExecute": "1"}, CreateByKubelet, Restore{Add: values{"a:NoExecute": "1"}, Withheld: reasons{"a:NoSchedule": NotKept}}},
		"the gate that a client wrote into a record": {"", nil, values{"nodekeep.dev/restoring:NoSchedule": ""}, CreateByKubelet, Restore{Withheld: reasons{"nodekeep.dev/restoring:NoSchedule": NotKept}}},
		"a taint that a rule would make by now":      {`taints: {rules: [{selector: a, taint: "a={value}:NoSchedule"}]}`, nil, values{"a:NoSchedule": "1"}, Live, Restore{Add: values{"a:NoSchedule": "1"}}},
		"values, keys and effects that are none": {
			"", nil,
			values{"a:NoSchedule": "two words", "b:Sometimes": "1", "c:": "1", ":NoSchedule": "1", "d:e:NoSchedule": "1", "Ex.com/f:NoExecute": "1", "g:NoExecute": strings.Repeat("x", 64), "h:NoExecute": "1"}, CreateByKubelet,
			Restore{Add: values{"h:NoExecute": "1"}, Withheld: reasons{"a:NoSchedule": Invalid, "b:Sometimes": Invalid, "c:": Invalid, ":NoSchedule": Invalid, "d:e:NoSchedule": Invalid, "Ex.com/f:NoExecute": Invalid, "g:NoExecute": Invalid}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := loadPolicy(t, tt.sections).Restorable(KeptItems{Items: tt.current}, KeptItems{Items: tt.remembered}, tt.occasion)
			assert.NotNil(t, got.Add)
			assert.NotNil(t, got.Deferred)
			assert.NotNil(t, got.Withheld)
			assert.Equal(t, orEmpty(tt.want.Add), got.Add)
			assert.Equal(t, orEmpty(tt.want.Deferred), got.Deferred)
			assert.Equal(t, orEmpty(tt.want.Withheld), got.Withheld)
		})
	}
}

func TestLabelsThatThePolicyDefersNeverGoInline(t *testing.T) {
	const role, o = "node-role.kubernetes.io/worker", "node-role.kubernetes.io/judged"
	deferred := map[string]string{role: "", o: "", "dedicated": "ci"}
	for protected, want := range map[string]map[string]string{"inline": {role: ""}, "deferred": {}, "never": {}} {
		inline, later := policyWith(t, `{defer: [dedicated, "*/judged"], protected: `+protected+`}`).InlineOf(deferred)
		assert.Equal(t, want, inline, protected)
		maps.Copy(later, inline)
		assert.Equal(t, deferred, later, protected)
	}
}

// Whatever is on the Node and in the record, valid or not: what is handed out can be set on the Node.
func TestMissingKeepsItsPromises(t *testing.T) {
	random, seed := seeded(t)
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	labels := func() map[string]string {
		m := map[string]string{}
		for range random.IntN(8) {
			key := pick("", "kubernetes.io/", "node.kubernetes.io/", "node-role.kubernetes.io/", "node-restriction.kubernetes.io/", "k8s.io/", "example.com/", "karpenter.sh/", "Bad/", "a/b/") +
				pick("a", "b", "hostname", "tier", "", "-x", "ö") + pick("", "", ":NoSchedule", ":NoExecute", ":Sometimes", ":", ":a:PreferNoSchedule")
			m[key] = pick("", "1", "2", "two words", "\xff", strings.Repeat("x", 64))
		}
		return m
	}
	var policies []Policy
	for _, keep := range []string{`["*"]`, `[]`, `[a, example.com/*, kubernetes.io/hostname]`, `["*", node-restriction.kubernetes.io/*]`} {
		for _, rest := range []string{``, `, onConflict: restoreStored`, `, protected: never`, `, protected: inline`, `, defer: ["*a", example.com/*]`, `, defer: ["*a"], onConflict: restoreStored, protected: inline`, `, ignore: ["*b"], onConflict: restoreStored, protected: never`} {
			policies = append(policies, policyWith(t, `{keep: `+keep+rest+`}`))
		}
	}
	for range 20_000 {
		p, occasion := policies[random.IntN(len(policies))], Occasion(random.IntN(3))
		current, remembered := labels(), labels()
		haveBefore, rememberedBefore := maps.Clone(current), maps.Clone(remembered)
		got := p.Restorable(KeptItems{Items: current}, KeptItems{Items: remembered}, occasion)
		assert.Equal(t, haveBefore, current)
		assert.Equal(t, rememberedBefore, remembered)
		keepsItsPromises(t, p, current, remembered, occasion, got)
		if t.Failed() {
			t.Fatalf("seed %d: have %q, remembered %q, occasion %d, got %q", seed, current, remembered, occasion, got)
		}
	}
}

func keepsItsPromises(t *testing.T, p Policy, live, remembered map[string]string, occasion Occasion, got Restore) {
	for key, value := range remembered {
		places := 0
		for _, m := range []map[string]string{got.Add, got.Deferred} {
			if given, present := m[key]; present {
				places++
				current, present := live[key]
				assert.Equal(t, value, given)
				assert.True(t, record.Valid(key, given))
				assert.False(t, present && (p.onConflict != RestoreStored || occasion == Live || current == given), "%q is on the Node", key)
				_, deferred := got.Deferred[key]
				assert.False(t, present && deferred, "%q is on the Node and could not be replaced later", key)
			}
		}
		if _, present := got.Withheld[key]; present {
			places++
		}
		if current, present := live[key]; present && current == value {
			assert.Zero(t, places, "%q is there", key)
		} else {
			assert.Equal(t, 1, places, "%q is in %d places", key, places)
		}
	}
	for key := range got.Add {
		assert.Contains(t, remembered, key)
		_, named := p.deferred.match(key)
		assert.True(t, occasion != CreateByKubelet || record.IsTaint(key) || AllowedForKubelet(key) && !named, "%q sinks the registration", key)
	}
	for key := range got.Deferred {
		assert.Contains(t, remembered, key)
		_, named := p.deferred.match(key)
		assert.True(t, occasion == CreateByKubelet && !record.IsTaint(key) && (named || !AllowedForKubelet(key)), "%q need not wait", key)
		assert.True(t, AllowedForKubelet(key) || p.protected != NeverProtected)
	}
	for key := range got.Withheld {
		assert.Contains(t, remembered, key)
	}
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// seeded returns a source of chance whose seed a failing test can print.
func seeded(t *testing.T) (*rand.Rand, uint64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}

func TestAnIsolationKeyIsOneForLabelsOnly(t *testing.T) {
	assert.True(t, IsNodeRestriction("node-restriction.kubernetes.io/tier"))
	assert.False(t, IsNodeRestriction("node-restriction.kubernetes.io/tier:NoSchedule"))
	assert.False(t, IsNodeRestriction("team.node-restriction.kubernetes.io/tier:NoSchedule"))
}
