package verify_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/verify"
)

func read(t *testing.T, text string) (settings verify.Settings) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &settings))
	return settings
}

func compile(settings verify.Settings) (verify.Profiles, field.ErrorList) {
	return verify.Compile(settings, field.NewPath("verify"))
}

const whole = `
label: example.com/ready
profiles:
- name: gpu
  nodeSelector: gpu=yes,kubernetes.io/os=linux
  taint: example.com/unchecked=yes:NoExecute
  wait:
    conditions: {KernelDeadlock: "False", Warm: "True"}
    daemonSets: [kube-system/cilium]
    allocatable: {nvidia.com/gpu: 1, memory: 64Gi}
  checks:
  - {name: dns, dns: {names: [kubernetes.default.svc], servers: each}}
  - {name: internet, dns: {names: [example.com.]}, required: false}
  - {name: api, api: {}}
  - {name: service, service: {name: kube-system/kube-dns, port: 53, endpoints: 3}}
  - {name: registry, tcp: "registry.example.com:443"}
  - {name: six, tcp: "[2001:db8::1]:443"}
  - {name: web, http: {url: "https://example.com/health"}}
  - {name: smi, container: {image: "registry.example.com/smi:1", command: [nvidia-smi], limits: {nvidia.com/gpu: 1}}}
  timeout: 1m
  attempts: {max: 3, backoff: 5s, maxBackoff: 1m}
  deadline: 10m
  onTimeout: release
- name: others
  checks: [{name: api, api: {}}]
  attempts: {backoff: 10m}
`

func TestAWholeSectionIsCompiledWithItsDefaults(t *testing.T) {
	profiles, errs := compile(read(t, whole))
	require.Empty(t, errs)
	assert.Equal(t, "example.com/ready", profiles.Label)
	assert.Equal(t, verify.Start{PerSecond: 10, InFlight: 200}, profiles.Start)
	require.Len(t, profiles.All(), 2)

	gpu, ok := profiles.Match(map[string]string{"gpu": "yes", "kubernetes.io/os": "linux"})
	require.True(t, ok)
	assert.Equal(t, "gpu", gpu.Name)
	assert.Equal(t, corev1.Taint{Key: "example.com/unchecked", Value: "yes", Effect: corev1.TaintEffectNoExecute}, gpu.Taint)
	assert.Equal(t, time.Minute, gpu.Timeout)
	assert.Equal(t, 2*time.Minute, gpu.StartTimeout)
	assert.Equal(t, 5*time.Second, gpu.Backoff)
	assert.Equal(t, time.Minute, gpu.MaxBackoff)
	assert.Equal(t, 10*time.Minute, gpu.Deadline)
	assert.Equal(t, 3, gpu.MaxAttempts)
	assert.Equal(t, verify.Release, gpu.OnTimeout)
	assert.Equal(t, map[string]verify.ConditionStatus{"KernelDeadlock": "False", "Warm": "True"}, gpu.Wait.Conditions)
	assert.Zero(t, gpu.Allocatable.Memory().Cmp(resource.MustParse("64Gi")))
	assert.Equal(t, verify.EachServer, gpu.Checks[0].DNS.Servers)
	assert.Equal(t, verify.AnyServer, gpu.Checks[1].DNS.Servers)
	assert.True(t, gpu.Checks[0].IsRequired())
	assert.False(t, gpu.Checks[1].IsRequired())
	assert.Equal(t, 200, *gpu.Checks[6].HTTP.Status)
	var kinds []string
	for _, check := range gpu.Checks {
		kinds = append(kinds, check.Kind())
	}
	assert.Equal(t, []string{"dns", "dns", "api", "service", "tcp", "tcp", "http", "container"}, kinds)

	rest, ok := profiles.Match(nil)
	require.True(t, ok)
	assert.Equal(t, "others", rest.Name)
	assert.Equal(t, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}, rest.Taint)
	assert.Equal(t, verify.Taint+":NoSchedule", rest.Profile.Taint)
	assert.Equal(t, []time.Duration{30 * time.Second, 10 * time.Minute, 10 * time.Minute, 14 * time.Minute}, []time.Duration{rest.Timeout, rest.Backoff, rest.MaxBackoff, rest.Deadline})
	assert.Equal(t, 5, rest.MaxAttempts)
	assert.Equal(t, verify.Keep, rest.OnTimeout)

	assert.Equal(t, []corev1.Taint{gpu.Taint, rest.Taint}, profiles.Taints())
	assert.True(t, profiles.IsTaint(corev1.Taint{Key: "example.com/unchecked", Effect: corev1.TaintEffectNoSchedule}), "the key alone decides")
	assert.False(t, profiles.IsTaint(corev1.Taint{Key: "example.com/ready"}))
}

func TestNoProfilesSelectNoNode(t *testing.T) {
	profiles, errs := compile(verify.Settings{})
	require.Empty(t, errs)
	for _, profiles := range []verify.Profiles{profiles, {}} {
		_, ok := profiles.Match(map[string]string{"a": "b"})
		assert.False(t, ok)
		assert.True(t, profiles.Empty())
		assert.Empty(t, profiles.Taints())
	}
	assert.Equal(t, verify.Label, profiles.Label)
	assert.Equal(t, verify.Start{PerSecond: 10, InFlight: 200}, profiles.Start)
}

func TestTheHashNamesWhatIsAskedAndNotThePace(t *testing.T) {
	hash := func(change string) string {
		profiles, errs := compile(read(t, "profiles:\n- "+change))
		require.Empty(t, errs)
		return profiles.All()[0].Hash
	}
	usual := hash("{name: a, checks: [{name: api, api: {}}]}")
	for match, text := range map[string]string{
		"a default written out": "{name: a, checks: [{name: api, api: {}, required: true}], timeout: 30s}",
		"another pace":          "{name: a, checks: [{name: api, api: {}}], attempts: {max: 9}, deadline: 1h}",
		"another name":          "{name: b, checks: [{name: api, api: {}}]}",
		"the same timeout":      "{name: a, checks: [{name: api, api: {}, timeout: 30s}]}",
	} {
		assert.Equal(t, usual, hash(text), match)
	}
	for second, text := range map[string]string{
		"another timeout": "{name: a, checks: [{name: api, api: {}}], timeout: 31s}",
		"a check's own":   "{name: a, checks: [{name: api, api: {}, timeout: 5s}]}",
		"one more check":  "{name: a, checks: [{name: api, api: {}}, {name: t, tcp: 'a:1'}]}",
		"not required":    "{name: a, checks: [{name: api, api: {}}, {name: t, tcp: 'a:1', required: false}]}",
	} {
		assert.NotEqual(t, usual, hash(text), second)
	}
}

func TestAProfileMayHaveNoChecksIfSomethingMustHold(t *testing.T) {
	for name, wait := range map[string]string{
		"a condition":              "conditions: {A: 'True'}",
		"the Pod of a DaemonSet":   "daemonSets: [kube-system/cni]",
		"each DaemonSet's Pod":     "daemonSets: [kube-system/*]",
		"all DaemonSets' Pods":     "daemonSets: [auto, kube-system/cni]",
		"what must be allocatable": "allocatable: {nvidia.com/gpu: 1}",
	} {
		profiles, errs := compile(read(t, "profiles: [{name: a, onTimeout: release, wait: {"+wait+"}}]"))
		require.Empty(t, errs, name)
		assert.True(t, profiles.All()[0].OnlyWaits(), name)
	}
}

// certificate returns a valid certificate in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestACertificateIsRead(t *testing.T) {
	settings := read(t, "profiles: [{name: a, checks: [{name: web, http: {url: 'https://[2001:db8::1]:8443/a?b=c'}}]}]")
	settings.Profiles[0].Checks[0].HTTP.CA = certificate(t) + certificate(t)
	_, errs := compile(settings)
	assert.Empty(t, errs)
	for subject, bundle := range map[string]string{
		"a private key":           "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"no PEM":                  "hello",
		"a broken certificate":    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"something after the end": certificate(t) + "hello",
	} {
		settings.Profiles[0].Checks[0].HTTP.CA = bundle
		_, errs := compile(settings)
		require.Len(t, errs, 1, subject)
		assert.Equal(t, "verify.profiles[0].checks[0].http.ca", errs[0].Field)
	}
	settings.Profiles[0].Checks[0].HTTP = &verify.HTTP{URL: "http://example.com/", CA: certificate(t)}
	_, errs = compile(settings)
	assert.ErrorContains(t, errs.ToAggregate(), "verify.profiles[0].checks[0].http.ca: Forbidden: only an https URL")
}

func TestWhatIsWrongIsNamedByItsField(t *testing.T) {
	plural := func(n int, entry string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", n), ",") + "]"
	}
	var checks, containers []string
	for i := range verify.MaxChecks + 1 {
		checks = append(checks, fmt.Sprintf("{name: c%d, api: {}}", i))
		containers = append(containers, fmt.Sprintf("{name: c%d, container: {image: a}}", i))
	}
	for name, row := range map[string]struct {
		profile string // what stands in the only profile in addition to its name and a check
		check   string // the check, instead of the usual one
		section string // what stands in the section instead of a profile
		field   string
		says    string
	}{
		"a label that is no key":             {section: "label: a/b/c", field: "verify.label", says: "a valid label key"},
		"too many profiles":                  {section: "profiles: " + plural(verify.MaxProfiles+1, "{}"), field: "verify.profiles", says: "must have at most 50"},
		"a profile without a name":           {section: "profiles: [{checks: [{name: a, api: {}}]}]", field: "verify.profiles[0].name", says: "Required"},
		"a profile's name that is none":      {section: "profiles: [{name: A_, checks: [{name: a, api: {}}]}]", field: "verify.profiles[0].name", says: "RFC 1123"},
		"two profiles of one name":           {section: "profiles: [{name: a, nodeSelector: b, checks: [{name: a, api: {}}]}, {name: a, checks: [{name: a, api: {}}]}]", field: "verify.profiles[1].name", says: "Duplicate"},
		"a profile that none can reach":      {section: "profiles: [{name: a, checks: [{name: a, api: {}}]}, {name: b, checks: [{name: a, api: {}}]}]", field: "verify.profiles[1]", says: "profile a before it selects every Node"},
		"a selector that is none":            {profile: "nodeSelector: '=='", field: "verify.profiles[0].nodeSelector", says: "Invalid"},
		"a selector by the own label":        {profile: "nodeSelector: '!nodekeep.dev/verified'", field: "verify.profiles[0].nodeSelector", says: "which verification itself sets"},
		"a mode that is none":                {profile: "mode: observe", field: "verify.profiles[0].mode", says: `supported values: "enforce", "report"`},
		"checks again without mode report":   {profile: "every: 1h", field: "verify.profiles[0].every", says: "needs mode: report"},
		"checks again too often":             {profile: "mode: report\n  every: 59s", field: "verify.profiles[0].every", says: "must be from 1m to 168h"},
		"a report with a taint":              {profile: "mode: report\n  taint: 'a:NoSchedule'", field: "verify.profiles[0].taint", says: "has no taint"},
		"a report with a deadline":           {profile: "mode: report\n  deadline: 5m", field: "verify.profiles[0].deadline", says: "there is no deadline"},
		"a report that releases":             {profile: "mode: report\n  onTimeout: release", field: "verify.profiles[0].onTimeout", says: "no taint to remove"},
		"a report that removes":              {profile: "mode: report\n  onFailure: node", field: "verify.profiles[0].onFailure", says: "the Node takes workloads"},
		"a report after each reboot":         {profile: "mode: report\n  reverify: onReboot", field: "verify.profiles[0].reverify", says: "after each reboot anyway"},
		"a report without checks":            {section: "profiles: [{name: a, mode: report, wait: {allocatable: {cpu: 1}}}]", field: "verify.profiles[0].checks", says: "at least one check"},
		"a taint without an effect":          {profile: "taint: a", field: "verify.profiles[0].taint", says: "must end in"},
		"a taint that keeps nothing away":    {profile: "taint: 'a:PreferNoSchedule'", field: "verify.profiles[0].taint", says: "must end in :NoSchedule or :NoExecute"},
		"a taint key that is none":           {profile: "taint: 'a/b/c:NoSchedule'", field: "verify.profiles[0].taint", says: "key a valid label key"},
		"a taint value that is none":         {profile: "taint: 'a=b c:NoSchedule'", field: "verify.profiles[0].taint", says: "value a valid label"},
		"a type that is none":                {profile: "wait: {conditions: {'a b': 'True'}}", field: "verify.profiles[0].wait.conditions[a b]", says: "name part must consist"},
		"a condition of verification itself": {profile: "wait: {conditions: {nodekeep.dev/Verified: 'True'}}", field: "verify.profiles[0].wait.conditions[nodekeep.dev/Verified]", says: "would wait for ever"},
		"a status that is none":              {profile: "wait: {conditions: {A: 'true'}}", field: "verify.profiles[0].wait.conditions[A]", says: `supported values: "True", "False", "Unknown"`},
		"too many conditions":                {profile: "wait: {conditions: {" + numbered(21) + "}}", field: "verify.profiles[0].wait.conditions", says: "at most 20"},
		"a DaemonSet without a namespace":    {profile: "wait: {daemonSets: [cilium]}", field: "verify.profiles[0].wait.daemonSets[0]", says: "NAMESPACE/NAME"},
		"a DaemonSet's name that is none":    {profile: "wait: {daemonSets: [kube-system/Cilium]}", field: "verify.profiles[0].wait.daemonSets[0]", says: "name a lowercase RFC 1123"},
		"DaemonSets of every namespace":      {profile: "wait: {daemonSets: ['*/*']}", field: "verify.profiles[0].wait.daemonSets[0]", says: "namespace a lowercase RFC 1123"},
		"a word that is not auto":            {profile: "wait: {daemonSets: [Auto]}", field: "verify.profiles[0].wait.daemonSets[0]", says: "NAMESPACE/NAME"},
		"some DaemonSets of a namespace":     {profile: "wait: {daemonSets: ['kube-system/cilium*']}", field: "verify.profiles[0].wait.daemonSets[0]", says: "name a lowercase RFC 1123"},
		"a quantity that is none":            {profile: "wait: {allocatable: {cpu: many}}", field: "verify.profiles[0].wait.allocatable[cpu]", says: "must be a quantity"},
		"a quantity of nothing":              {profile: "wait: {allocatable: {cpu: 0}}", field: "verify.profiles[0].wait.allocatable[cpu]", says: "must be more than 0"},
		"a quantity that is slow to read":    {profile: "wait: {allocatable: {cpu: '1e-9999999'}}", field: "verify.profiles[0].wait.allocatable[cpu]", says: "must be a quantity"},
		"half a device":                      {profile: "wait: {allocatable: {nvidia.com/gpu: 500m}}", field: "verify.profiles[0].wait.allocatable[nvidia.com/gpu]", says: "must be a whole number"},
		"a resource that is none":            {profile: "wait: {allocatable: {gpu: 1}}", field: "verify.profiles[0].wait.allocatable[gpu]", says: "is no resource that Kubernetes has: without a domain"},
		"a resource that is misspelt":        {profile: "wait: {allocatable: {memmory: 64Gi}}", field: "verify.profiles[0].wait.allocatable[memmory]", says: "did you mean memory?"},
		"a limit of volumes":                 {check: "{name: a, container: {image: a, limits: {attachable-volumes-aws-ebs: 1}}}", field: "verify.profiles[0].checks[0].container.limits[attachable-volumes-aws-ebs]", says: "is no resource of a container"},
		"a timeout that is none":             {profile: "timeout: soon", field: "verify.profiles[0].timeout", says: "must be a duration"},
		"a timeout that is too long":         {profile: "timeout: 1h", field: "verify.profiles[0].timeout", says: "must be from 1s to 10m"},
		"a timeout that is too short":        {profile: "timeout: 10ms", field: "verify.profiles[0].timeout", says: "must be from 1s to 10m"},
		"a startTimeout that is too short":   {profile: "startTimeout: 1s", field: "verify.profiles[0].startTimeout", says: "must be from 10s to 1h"},
		"too many attempts":                  {profile: "attempts: {max: 1000}", field: "verify.profiles[0].attempts.max", says: "must be from 1 to 100"},
		"a backoff that is none":             {profile: "attempts: {backoff: 10}", field: "verify.profiles[0].attempts.backoff", says: "must be a duration"},
		"a maxBackoff below the backoff":     {profile: "attempts: {backoff: 1m, maxBackoff: 10s}", field: "verify.profiles[0].attempts.maxBackoff", says: "must not be shorter than backoff"},
		"a deadline that is too short":       {profile: "deadline: 1s", field: "verify.profiles[0].deadline", says: "must be from 1m to 168h"},
		"an onTimeout that is none":          {profile: "onTimeout: delete", field: "verify.profiles[0].onTimeout", says: `supported values: "keep", "release"`},
		"a reverify that is none":            {profile: "reverify: daily", field: "verify.profiles[0].reverify", says: `supported values: "never", "onReboot"`},
		"an onFailure that is none":          {profile: "onFailure: reboot", field: "verify.profiles[0].onFailure", says: `supported values: "keep", "nodeClaim", "machine", "node"`},
		"a stopAbove that is none":           {section: "limits: {stopAbove: most}", field: "verify.limits.stopAbove", says: "must be a number of Nodes, or a percentage"},
		"a stopAbove above all":              {section: "limits: {stopAbove: 101%}", field: "verify.limits.stopAbove", says: "from 0% to 100%"},
		"a negative stopAbove":               {section: "limits: {stopAbove: -1}", field: "verify.limits.stopAbove", says: "must not be negative"},
		"too many removals an hour":          {section: "limits: {deletionsPerHour: 51}", field: "verify.limits.deletionsPerHour", says: "must be from 0 to 50"},
		"reboots with an evicting taint":     {section: "profiles: [{name: a, checks: [{name: a, api: {}}], reverify: onReboot, taint: 'a:NoExecute'}]", field: "verify.profiles[0].reverify", says: "would evict its Pods"},
		"a profile without checks":           {section: "profiles: [{name: a}]", field: "verify.profiles[0].checks", says: "at least one check"},
		"no check and nothing to wait for":   {section: "profiles: [{name: a, wait: {conditions: {}}}]", field: "verify.profiles[0].checks", says: "an item in wait that must hold"},
		"no check, and a removal":            {section: "profiles: [{name: a, onFailure: node, wait: {daemonSets: [a/b]}}]", field: "verify.profiles[0].onFailure", says: "a profile that only waits fails no Node"},
		"no check after a reboot":            {section: "profiles: [{name: a, reverify: onReboot, wait: {allocatable: {cpu: 1}}}]", field: "verify.profiles[0].reverify", says: "needs checks"},
		"too many checks":                    {section: "profiles: [{name: a, checks: [" + strings.Join(checks, ",") + "]}]", field: "verify.profiles[0].checks", says: "at most 20"},
		"too many containers":                {section: "profiles: [{name: a, checks: [" + strings.Join(containers[:4], ",") + "]}]", field: "verify.profiles[0].checks", says: "has 4 container checks; a profile has 3 at most"},
		"no check that is required":          {section: "profiles: [{name: a, checks: [{name: a, api: {}, required: false}]}]", field: "verify.profiles[0].checks", says: "at least one check must be required"},
		"a check without a name":             {check: "{api: {}}", field: "verify.profiles[0].checks[0].name", says: "Required"},
		"two checks of one name":             {section: "profiles: [{name: a, checks: [{name: a, api: {}}, {name: a, api: {}}]}]", field: "verify.profiles[0].checks[1].name", says: "Duplicate"},
		"a check with the worker's name":     {check: "{name: nodekeep-check, api: {}}", field: "verify.profiles[0].checks[0].name", says: "the worker's own container"},
		"a check of no kind":                 {check: "{name: a}", field: "verify.profiles[0].checks[0]", says: "one of dns, api, service, tcp, http, container, kubelet"},
		"a check of two kinds":               {check: "{name: a, api: {}, tcp: 'a:1'}", field: "verify.profiles[0].checks[0]", says: "not of several: api, tcp"},
		"no names to resolve":                {check: "{name: a, dns: {}}", field: "verify.profiles[0].checks[0].dns.names", says: "at least one name"},
		"a name that cannot be resolved":     {check: "{name: a, dns: {names: ['a b']}}", field: "verify.profiles[0].checks[0].dns.names[0]", says: "RFC 1123"},
		"an address to resolve":              {check: "{name: a, dns: {names: [8.8.8.8]}}", field: "verify.profiles[0].checks[0].dns.names[0]", says: "must be a name"},
		"servers that are none":              {check: "{name: a, dns: {names: [a], servers: all}}", field: "verify.profiles[0].checks[0].dns.servers", says: `supported values: "any", "each"`},
		"a Service without a namespace":      {check: "{name: a, service: {name: dns, port: 53}}", field: "verify.profiles[0].checks[0].service.name", says: "NAMESPACE/NAME"},
		"a Service without a port":           {check: "{name: a, service: {name: a/dns}}", field: "verify.profiles[0].checks[0].service.port", says: "between 1 and 65535"},
		"too many endpoints":                 {check: "{name: a, service: {name: a/dns, port: 53, endpoints: 11}}", field: "verify.profiles[0].checks[0].service.endpoints", says: "to 10"},
		"an address without a port":          {check: "{name: a, tcp: example.com}", field: "verify.profiles[0].checks[0].tcp", says: "must be HOST:PORT"},
		"a port that is none":                {check: "{name: a, tcp: 'example.com:https'}", field: "verify.profiles[0].checks[0].tcp", says: "port must be a number"},
		"IPv6 without brackets":              {check: "{name: a, tcp: '2001:db8::1:443'}", field: "verify.profiles[0].checks[0].tcp", says: "in brackets"},
		"an address that is none":            {check: "{name: a, tcp: '[2001:zz::1]:443'}", field: "verify.profiles[0].checks[0].tcp", says: "host must be a valid IP"},
		"no host":                            {check: "{name: a, tcp: ':443'}", field: "verify.profiles[0].checks[0].tcp", says: "host"},
		"no URL":                             {check: "{name: a, http: {}}", field: "verify.profiles[0].checks[0].http.url", says: "Required"},
		"a URL that reads files":             {check: "{name: a, http: {url: 'file:///etc/passwd'}}", field: "verify.profiles[0].checks[0].http.url", says: "must begin with https:// or http://"},
		"a URL without a host":               {check: "{name: a, http: {url: 'https:///a'}}", field: "verify.profiles[0].checks[0].http.url", says: "must name a host"},
		"a URL that does not parse":          {check: "{name: a, http: {url: 'https://a b/'}}", field: "verify.profiles[0].checks[0].http.url", says: "must be a URL"},
		"a URL with a wrong port":            {check: "{name: a, http: {url: 'https://a:0/'}}", field: "verify.profiles[0].checks[0].http.url", says: "port must be"},
		"a status that no server sends":      {check: "{name: a, http: {url: 'https://a/', status: 99}}", field: "verify.profiles[0].checks[0].http.status", says: "from 100 to 599"},
		"no image":                           {check: "{name: a, container: {}}", field: "verify.profiles[0].checks[0].container.image", says: "Required"},
		"an image that is none":              {check: "{name: a, container: {image: 'https://a/b'}}", field: "verify.profiles[0].checks[0].container.image", says: "must be an image"},
		"a limit that is none":               {check: "{name: a, container: {image: a, limits: {cpu: many}}}", field: "verify.profiles[0].checks[0].container.limits[cpu]", says: "must be a quantity"},
		"a limit of Pods":                    {check: "{name: a, container: {image: a, limits: {pods: 1}}}", field: "verify.profiles[0].checks[0].container.limits[pods]", says: "no resource of a container"},
		"a check's timeout that is none":     {check: "{name: a, api: {}, timeout: soon}", field: "verify.profiles[0].checks[0].timeout", says: "must be a duration"},
		"a check's timeout of no time":       {check: "{name: a, api: {}, timeout: 0s}", field: "verify.profiles[0].checks[0].timeout", says: "must be from 1s to 10m"},
		"a check that outlasts its profile":  {check: "{name: a, api: {}, timeout: 31s}", field: "verify.profiles[0].checks[0].timeout", says: "must not be longer than the timeout of the profile, 30s"},
		"a variable's name that is none":     {check: "{name: a, container: {image: a, env: {'a=b': x}}}", field: "verify.profiles[0].checks[0].container.env[a=b]", says: "variable name"},
		"too many variables":                 {check: "{name: a, container: {image: a, env: {" + numbered(21) + "}}}", field: "verify.profiles[0].checks[0].container.env", says: "at most 20"},
		"a value with NUL":                   {check: `{name: a, container: {image: a, env: {A: "\0"}}}`, field: "verify.profiles[0].checks[0].container.env[A]", says: "character NUL"},
		"a RuntimeClass that is none":        {check: "{name: a, container: {image: a, runtimeClassName: A_}}", field: "verify.profiles[0].checks[0].container.runtimeClassName", says: "RFC 1123"},
		"two RuntimeClasses": {section: "profiles: [{name: a, checks: [{name: api, api: {}}, {name: one, container: {image: a, runtimeClassName: kata}}, {name: two, container: {image: a, runtimeClassName: nvidia}}]}]",
			field: "verify.profiles[0].checks[2].container.runtimeClassName", says: "check one has kata and check two has nvidia"},
		"a RuntimeClass and none": {section: "profiles: [{name: a, checks: [{name: one, container: {image: a}}, {name: two, container: {image: a, runtimeClassName: nvidia}}]}]",
			field: "verify.profiles[0].checks[1].container.runtimeClassName", says: "check one has the default class and check two has nvidia"},
		"a task that has no room": {check: "{name: a, container: {image: a, args: ['" + strings.Repeat("x", verify.MaxCheckBytes) + "']}}", field: "verify.profiles[0].checks", says: "65536"},
	} {
		t.Run(name, func(t *testing.T) {
			section := row.section
			if section == "" {
				check := row.check
				if check == "" {
					check = "{name: api, api: {}}"
				}
				section = "profiles:\n- name: a\n  checks:\n  - " + check
				if row.profile != "" {
					section += "\n  " + row.profile
				}
			}
			profiles, errs := compile(read(t, section))
			require.Len(t, errs, 1, "%v", errs)
			assert.Equal(t, row.field, errs[0].Field)
			assert.Contains(t, errs[0].Error(), row.says)
			assert.Empty(t, profiles)
		})
	}
}

func TestAllErrorsAreNamedAtOnce(t *testing.T) {
	_, errs := compile(read(t, "label: a/b/c\nlimits: {stopAbove: x}\nprofiles: [{name: a, timeout: x, onFailure: x, checks: [{name: b}]}, {name: a, taint: b, checks: []}]"))
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	assert.Equal(t, []string{"verify.limits.stopAbove", "verify.label", "verify.profiles[0].timeout", "verify.profiles[0].onFailure", "verify.profiles[0].checks[0]", "verify.profiles[1].name", "verify.profiles[1]", "verify.profiles[1].taint", "verify.profiles[1].checks"}, fields)
}

func TestAPasswordInAURLIsNotRepeated(t *testing.T) {
	for _, url := range []string{"https://me:hunter2@example.com/", "ftp://me:hunter2@example.com", "https://me:hunter2@a b/", "me:hunter2@example.com"} {
		_, errs := compile(verify.Settings{Profiles: []verify.Profile{{Name: "a", Checks: []verify.Check{{Name: "a", HTTP: &verify.HTTP{URL: url}}}}}})
		require.NotEmpty(t, errs, url)
		assert.NotContains(t, errs.ToAggregate().Error(), "hunter2")
	}
}

func TestCompileLeavesTheSettingsAsTheyAre(t *testing.T) {
	settings := read(t, whole)
	_, errs := compile(settings)
	require.Empty(t, errs)
	assert.Equal(t, read(t, whole), settings)
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(`{"profiles":[{"name":"a","checks":[{"name":"b","http":{"url":"https://a:b@c/","ca":"-----BEGIN CERTIFICATE-----"}}]}]}`))
	for _, seed := range []string{whole, "label: a", "profiles: [{name: a, wait: {allocatable: {cpu: 1e9}}, checks: [{name: b, tcp: '[::1]:1'}]}]"} {
		text, err := yaml.YAMLToJSON([]byte(seed))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var settings verify.Settings
		if json.Unmarshal(data, &settings) != nil {
			return
		}
		profiles, errs := compile(settings)
		if len(errs) > 0 {
			require.Empty(t, profiles.All())
			return
		}
		require.Len(t, profiles.All(), len(settings.Profiles))
		reread := settings // with all defaults written out
		reread.Profiles = nil
		for _, profile := range profiles.All() {
			require.NotEmpty(t, profile.Hash)
			require.True(t, profiles.IsTaint(profile.Taint))
			require.True(t, len(profile.Checks) > 0 || profile.OnFailure == verify.KeepNode && profile.Reverify == verify.NeverReverify)
			require.LessOrEqual(t, profile.Backoff, profile.MaxBackoff)
			for _, check := range profile.Checks {
				require.NotEmpty(t, check.Kind())
			}
			reread.Profiles = append(reread.Profiles, profile.Profile)
		}
		second, errs := compile(reread)
		require.Empty(t, errs)
		for i, profile := range second.All() {
			require.Equal(t, profiles.All()[i].Hash, profile.Hash)
		}
	})
}

// numbered returns so many entries of a map.
func numbered(count int) string {
	entries := make([]string, count)
	for i := range entries {
		entries[i] = fmt.Sprintf("A%d: 'True'", i)
	}
	return strings.Join(entries, ", ")
}
