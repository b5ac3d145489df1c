package verify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"
)

func TestATaskSurvivesEncodingAndParsing(t *testing.T) {
	task := verify.Task{
		Timeout:  "30s",
		Checks:   []verify.Check{tcpCheck("registry", false), containerCheck("smi"), {Name: "dns", DNS: &verify.DNS{Names: []string{"example.com."}, Servers: verify.EachServer}}},
		Services: map[string]verify.Target{"default/kubernetes": {ClusterIPs: []string{"10.96.0.1"}}},
		DNS:      verify.Target{ClusterIPs: []string{"10.96.0.10"}, Endpoints: []string{"10.244.0.2:53"}},
	}
	text, err := json.Marshal(task)
	require.NoError(t, err)
	parsed, err := verify.ParseTask(string(text))
	require.NoError(t, err)
	assert.Equal(t, task, parsed)
}

func TestATaskThatCannotBeReadIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                      ``,
		"text":                         `checks`,
		"cut":                          `{"timeout":"30s"`,
		"an unknown field":             `{"timeout":"30s","checks":[],"dns":{},"newer":1}`,
		"a check of an unknown kind":   `{"timeout":"30s","checks":[{"name":"a","icmp":{}}],"dns":{}}`,
		"a check without a kind":       `{"timeout":"30s","checks":[{"name":"a"}],"dns":{}}`,
		"a check of two kinds":         `{"timeout":"30s","checks":[{"name":"a","api":{},"tcp":"a:1"}],"dns":{}}`,
		"two checks of one name":       `{"timeout":"30s","checks":[{"name":"a","api":{}},{"name":"a","api":{}}],"dns":{}}`,
		"no timeout":                   `{"checks":[],"dns":{}}`,
		"a timeout of nothing":         `{"timeout":"0s","checks":[],"dns":{}}`,
		"a timeout without a unit":     `{"timeout":"30","checks":[],"dns":{}}`,
		"a check's timeout of nothing": `{"timeout":"30s","checks":[{"name":"a","api":{},"timeout":"0s"}],"dns":{}}`,
		"more than a variable can be":  `{"timeout":"30s","checks":[],"dns":{}}` + strings.Repeat(" ", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify.ParseTask(text)
			assert.ErrorContains(t, err, "read task: ")
		})
	}
}

func TestNamesOfServicesAreKnown(t *testing.T) {
	for name, service := range map[string]string{
		"kubernetes.default":                    "",
		"kubernetes.default.svc":                "default/kubernetes",
		"kubernetes.default.svc.":               "default/kubernetes",
		"Kubernetes.Default.svc.cluster.local.": "default/kubernetes",
		"kubernetes.default.svc.cluster.local":  "default/kubernetes",
		"kubernetes":                            "",
		"example.com.":                          "",
		"example.com":                           "",
		"www.example.com":                       "",
		"a.b.c.svc":                             "",
		".default.svc":                          "",
		"":                                      "",
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := verify.ServiceOfName(name)
			assert.Equal(t, service, got)
			assert.Equal(t, service != "", ok)
		})
	}
}
