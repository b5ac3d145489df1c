package verification

import (
	"os"
	"testing"

	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own.
var nodekeep *harness.Installation

// selected is the label of Nodes that the profile selects.
const selected = "pool"

const verifying = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  verify:
    profiles:
    - name: pool
      nodeSelector: pool=checked
      checks:
      - {name: dns, dns: {names: [kubernetes.default.svc]}}
      - {name: api, api: {}}
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
    - name: reboots
      nodeSelector: pool=reboots
      checks:
      - {name: api, api: {}}
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
      reverify: onReboot
    - name: shared
      nodeSelector: pool=shared
      checks:
      - {name: dns, dns: {names: [kubernetes.default.svc]}}
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
    - name: kubelets
      nodeSelector: pool=kubelets
      checks:
      - {name: api, api: {}}
      - {name: kubelet, kubelet: {}}
      timeout: 2s
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
    - name: tried
      nodeSelector: pool=tried
      checks: [{name: dns, timeout: 29s, dns: {names: [kubernetes.default.svc]}}]
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
    - name: waits
      nodeSelector: pool=waits
      wait: {conditions: {example.com/Warm: "True"}}
    - name: runtime
      nodeSelector: pool=runtime
      checks: [{name: smi, container: {image: none, env: {DEVICES: "8"}, runtimeClassName: late-class}}]
    - name: reports
      nodeSelector: pool=reports
      mode: report
      every: 1h
      checks: [{name: dns, dns: {names: [kubernetes.default.svc]}}]
      attempts: {max: 2, backoff: 1s, maxBackoff: 2s}
    - name: patient
      nodeSelector: pool=patient
      checks: [{name: api, api: {}}]
      attempts: {max: 2, backoff: 1s, maxBackoff: 10m}
    - name: agents
      nodeSelector: pool=agents
      wait: {daemonSets: [agents/*]}
    - name: all-agents
      nodeSelector: pool=all-agents
      wait: {daemonSets: [auto]}
`

func TestMain(m *testing.M) {
	options := harness.Options{Scheduler: true, ControllerManager: true}
	os.Exit(harness.RunVerifyingTests(m, options, verifying, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}
