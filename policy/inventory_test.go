package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestErrorsOfAnInventoryAreReportedAllAtOnceByField(t *testing.T) {
	_, err := Load([]byte(`apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - {name: a, when: {inventory: {other.rack: r7}}, set: {tier: a}}
    - {name: b, set: {rack: "{inventory.cmdb.row}"}}
    - {name: c, set: {node-restriction.kubernetes.io/rack: "{inventory.cmdb.rack}"}}
    - {name: d, set: {rack: "{inventory.cmdb.rack}"}}
    - {name: e, when: {labels: rack=r7}, set: {node-restriction.kubernetes.io/zone: a}}
  inventory:
  - {name: cmdb, url: "http://cmdb", attributes: [rack]}
  - {name: cmdb, url: "https://user:secret@cmdb", file: nodes.json, attributes: [], interval: 1ms}
  - {name: Bad, configMap: nodes, ca: /ca.crt, attributes: ["a b"], staleAfter: 1m, interval: 1h}
`), DefaultGate)
	var errs FileErrors
	require.ErrorAs(t, err, &errs)
	var fields []string
	for _, fileErr := range errs {
		fields = append(fields, fileErr.Field)
	}
	for _, want := range []string{
		"spec.labels.rules[0].when.inventory[other.rack]", "spec.labels.rules[1].set[rack]", "spec.labels.rules[2].set[node-restriction.kubernetes.io/rack]",
		"spec.labels.rules[4].set[node-restriction.kubernetes.io/zone]", "spec.inventory[0].url", "spec.inventory[1].name", "spec.inventory[1].url", "spec.inventory[1].file",
		"spec.inventory[1]", "spec.inventory[1].attributes", "spec.inventory[1].interval", "spec.inventory[2].name", "spec.inventory[2].ca", "spec.inventory[2].attributes[0]", "spec.inventory[2].staleAfter",
	} {
		assert.Contains(t, fields, want)
	}
	assert.NotContains(t, err.Error(), "secret")
}
