package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestValuesThatCannotBeAreRefusedWithTheirPath(t *testing.T) {
	for value, path := range map[string]string{
		"webhooks.replicas=3":                                   "additional properties 'webhooks' not allowed",
		"webhook.replica=3":                                     "at '/webhook'",
		"webhook.replicas=0":                                    "at '/webhook/replicas'",
		"capture.replicas=two":                                  "at '/capture/replicas'",
		"webhook.failurePolicy=Fail":                            "at '/webhook'", // not offered: it would keep Nodes out
		"webhook.ports.webhook=70000":                           "at '/webhook/ports/webhook'",
		"webhook.drainSeconds=10s":                              "at '/webhook/drainSeconds'",
		"webhook.resources.request.cpu=1":                       "at '/webhook/resources'",
		"pods.tolerations[0].efect=NoSchedule":                  "at '/pods/tolerations/0'",
		"capture.annotations.a.b=c":                             "at '/capture/annotations/a'",
		"pods.env[0].value=x":                                   "at '/pods/env/0'",
		"webhook.tolerations[0].key=a":                          "at '/webhook'", // all pods have the same
		"capture.hostNetwork=maybe":                             "at '/capture/hostNetwork'",
		"certificates.mode=selfsigned":                          "at '/certificates/mode'",
		"certificates.mode=secret":                              "at '/certificates/secret/name'",
		"certificates.certManager.issuerRef.kind=Issuer":        "at '/certificates/certManager/issuerRef'",
		"certificates.certManager.duration=7d":                  "at '/certificates/certManager/duration'",
		"gate.policy=on":                                        "at '/gate/policy'",
		"guards.strip=on":                                       "at '/guards/strip'",
		"gate.key=not a key":                                    "at '/gate/key'",
		"gate.key=it's":                                         "at '/gate/key'", // it goes into an expression
		"image.digest=latest":                                   "at '/image/digest'",
		"log.level=loud":                                        "at '/log/level'",
		"policy.label.keep={a}":                                 "at '/policy'",
		"policy.labels.protected=sometimes":                     "at '/policy/labels/protected'",
		"policy.labels.keep=a":                                  "at '/policy/labels/keep'",
		"policy.labels.rules[0].nam=a":                          "at '/policy/labels/rules/0'",
		"policy.labels.rules[0].wen.labels=a":                   "at '/policy/labels/rules/0'",
		"policy.inventory[0].nme=a":                             "at '/policy/inventory/0'",
		"policy.inventory[0].auth.tokenFile=/var/run/secrets/x": "at '/policy/inventory/0/auth/tokenFile'",
		"policy.taints.rules[0].taint=a=b:NoSchedule":           "at '/policy/taints/rules/0'",
		"policy.taints.register[0].taint=a=b:Never":             "at '/policy/taints/register/0/taint'",
		"policy.retention=30d":                                  "at '/policy/retention'",
		"policy.machine.onMismatch=x":                           "at '/policy/machine/onMismatch'",
		"priorityClassQuota=true":                               "at '/priorityClassQuota'",
		"webhook.clientAuthority.names={kube-apiserver}":        "at '/webhook/clientAuthority/names'",
		"webhook.clientAuthority.configMap=one,webhook.clientAuthority.secret=another": "at '/webhook/clientAuthority/secret'",
		"policy.verify.profiles[0].wait.daemonSets[0]=a/b*":                            "at '/policy/verify/profiles/0/wait/daemonSets/0'",
		"policy.verify.profiles[0].wait.daemonSets[0]=autos":                           "at '/policy/verify/profiles/0/wait/daemonSets/0'",
		"policy.verify.profiles[0].wait.daemonSets=auto":                               "at '/policy/verify/profiles/0/wait/daemonSets'",
		"policy.verify.profiles[0].taint=it's:NoSchedule":                              "at '/policy/verify/profiles/0/taint'", // it goes into an expression
		"policy.verify.profiles[0].taint=a:PreferNoSchedule":                           "at '/policy/verify/profiles/0/taint'",
		"policy.verify.label=it's":                                                     "at '/policy/verify/label'",
		"policy.verify.limits.stopAbove=most":                                          "at '/policy/verify/limits/stopAbove'",
		"policy.verify.limits.stopAbove=101%":                                          "at '/policy/verify/limits/stopAbove'",
		"policy.verify.limits.deletionsPerHour=51":                                     "at '/policy/verify/limits/deletionsPerHour'",
		"policy.verify.profiles[0].onFailure=reboot":                                   "at '/policy/verify/profiles/0/onFailure'",
		"verify=null":                                            "missing property 'verify'", // what policy.verify=null is for
		"verify.checksNamespace=Checks":                          "at '/verify/checksNamespace'",
		"uninstall.patienceSeconds=-1":                           "at '/uninstall/patienceSeconds'",
		"certificates.mode=secret,certificates.secret.name=ours": "at '/certificates/secret/caBundle'",
	} {
		t.Run(value, func(t *testing.T) {
			_, err := harness.Template(t.Context(), namespace, set(value)...)
			require.ErrorContains(t, err, "values don't meet the specifications of the schema")
			assert.ErrorContains(t, err, path)
		})
	}
}

// The schema must take whatever nodekeep takes; what it lets through beyond that, nodekeep refuses with its own words.
func TestTheSchemaTakesEveryPolicyThatNodekeepTakes(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		good   bool
	}{
		"everything": {`{labels: {keep: ["*", "a.example.com/*"], ignore: [b], defer: [dedicated, "*.example.com/*"], ignoreManagers: [kubelet, "*x"], onConflict: restoreStored, protected: inline,
				rules: [{name: rtx, when: {devices: {driver: gpu.example.com}, any: [{names: [a]}]}, set: {gpu: rtx}, hold: 15m, precedence: rule}]},
			taints: {keep: [a], ignore: [b], register: [{taint: "a/b:NoExecute"}, {taint: "c=d:PreferNoSchedule", nodeSelector: "gpu in (yes)"}],
			rules: [{selector: "dedicated in (ci, batch)", taint: "dedicated={value}:NoSchedule"}, {selector: a=b, taint: "x:NoSchedule"}]},
			machine: {onMismatch: quarantine}, retention: 10m}`, true},
		"removals":                   {`{verify: {limits: {stopAbove: 0%, deletionsPerHour: 50}}}`, true},
		"few removals":               {`{verify: {limits: {stopAbove: 2}}}`, true},
		"removals of a share of all": {`{verify: {limits: {stopAbove: 20.5%}}}`, false},
		"the shortest policy":        {`null`, true},
		"nothing kept":               {`{labels: {keep: []}, taints: {keep: []}}`, true},
		"no retention":               {`{retention: 0}`, true},
		"a retention in parts":       {`{retention: 1h30m15s}`, true},
		"an unknown field":           {`{labels: {keeps: []}}`, false},
		"a label that is no text":    {`{labels: {keep: [1]}}`, false},
		"a rule without selector":    {`{taints: {rules: [{taint: "a:NoSchedule"}]}}`, false},
		"a taint without effect":     {`{taints: {register: [{taint: "a"}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Load([]byte(policytest.Head+"  "+c.policy), policy.DefaultGate)
			require.Equal(t, c.good, err == nil, "nodekeep: %v", err)
			file := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(file, []byte("policy: "+c.policy+"\n"), 0o600))
			out, err := harness.Template(t.Context(), namespace, "--values", file)
			require.Equal(t, c.good, err == nil, "the chart: %v", err)
			if c.good {
				theProgramTakesItsFlagsAndItsPolicy(t, parse(t, out))
			}
		})
	}
}

// So Helm owns no field that an operator may want to set with kubectl.
func TestTheChartMakesNoPolicyUnlessItsValuesSayOne(t *testing.T) {
	assert.Empty(t, render(t).names("NodePolicy"))
	assert.Equal(t, []string{"default"}, render(t, set("policy.cordon=keep")...).names("NodePolicy"))
}

func TestEveryValueIsExplained(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(harness.Chart(), "values.yaml"))
	require.NoError(t, err)
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(content, &document))
	leaves := 0
	var walk func(node *yaml.Node, path string, explained bool)
	walk = func(node *yaml.Node, path string, explained bool) {
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			local := path + "." + key.Value
			if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
				walk(value, local, key.HeadComment != "")
				continue
			}
			leaves++
			assert.True(t, key.HeadComment != "" || explained, "%s has no comment", local)
		}
	}
	walk(document.Content[0], "", false)
	assert.Greater(t, leaves, 60)
}
