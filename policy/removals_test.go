package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAProfileThatRemovesNoNodeOrLeavesItsMachineIsAWarning(t *testing.T) {
	const check = ", checks: [{name: a, api: {}}]}\n"
	for name, row := range map[string]struct {
		profile, limits string
		want            []string
	}{
		"removed by its NodeClaim":                        {profile: "onFailure: nodeClaim"},
		"removed by itself":                               {profile: "onFailure: node"},
		"kept, with what would be a warning otherwise":    {profile: "onTimeout: release, nodeSelector: node-role.kubernetes.io/a", limits: "stopAbove: 0"},
		"released before all attempts can have failed":    {profile: "onFailure: machine, onTimeout: release, deadline: 2m", want: []string{"verify.profiles: gpu removes no Node: onTimeout is release, and 5 failed attempts take 2m30s at least, which is not before the deadline, 2m"}},
		"released while its removal is held":              {profile: "onFailure: nodeClaim, onTimeout: release", want: []string{"verify.profiles: gpu removes Nodes that fail, and onTimeout is release: a Node whose removal is held takes workloads at the deadline"}},
		"the Node of Karpenter, by itself":                {profile: "onFailure: node, nodeSelector: node.restriction.karpenter.sh/a", want: []string{"verify.profiles: gpu selects by node.restriction.karpenter.sh/a, which a kubelet may set on its own Node: it can choose another profile, or none", "verify.profiles: gpu selects Nodes of Karpenter, and onFailure is node; nodeClaim removes the machine, too"}},
		"the Node of Cluster API, by itself":              {profile: "onFailure: node, nodeSelector: cluster.x-k8s.io/a", want: []string{"verify.profiles: gpu selects by cluster.x-k8s.io/a, which a kubelet may set on its own Node: it can choose another profile, or none", "verify.profiles: gpu selects Nodes of Cluster API, and onFailure is node; machine removes the machine, too"}},
		"Nodes that are not of Karpenter":                 {profile: "onFailure: node, nodeSelector: '!karpenter.sh/nodepool'", want: []string{"verify.profiles: gpu selects by karpenter.sh/nodepool, which a kubelet may set on its own Node: it can choose another profile, or none"}},
		"a Node that cluster-autoscaler made, by itself":  {profile: "onFailure: node, taint: 'startup-taint.cluster-autoscaler.kubernetes.io/a:NoSchedule'", want: []string{"verify.profiles: gpu has a taint of cluster-autoscaler, and onFailure is node: the machine stays until cluster-autoscaler removes it as one without a Node (--max-node-provision-time, 15m), and counts until then"}},
		"limits that stop every removal, as in emergency": {profile: "onFailure: nodeClaim", limits: "stopAbove: 0", want: []string{"verify.limits.stopAbove is 0: no Node is removed, although profiles have onFailure: gpu"}},
		"limits that allow no removal an hour":            {profile: "onFailure: nodeClaim", limits: "deletionsPerHour: 0", want: []string{"verify.limits.deletionsPerHour is 0: no Node is removed, although profiles have onFailure: gpu"}},
		"limits that stop every removal, as a percentage": {profile: "onFailure: nodeClaim", limits: "stopAbove: 0%", want: []string{"verify.limits.stopAbove is 0%: no Node is removed, although profiles have onFailure: gpu"}},
		"limits that let few Nodes be removed":            {profile: "onFailure: nodeClaim", limits: "stopAbove: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := loadPolicy(t, "verify:\n  limits: {"+row.limits+"}\n  profiles:\n  - {name: gpu, "+row.profile+check)
			assert.Equal(t, row.want, p.Warnings())
		})
	}
}
