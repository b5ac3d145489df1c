package attack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// Before Kubernetes 1.36, the right to the dry run is the right to all that this kubelet may do. The policy nodekeep-self-test leaves the dry run.
func TestTheSelfTestsKubeletCanWriteNothingWhereItsThiefMayActAsItInAllWays(t *testing.T) {
	prepared(t)
	thief := granted(t, "thief", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"system:node:" + selfTest}, Verbs: []string{"impersonate"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"system:nodes"}, Verbs: []string{"impersonate"}})
	config, kubelets := configOf(t, thief), []string{"system:nodes"}
	register := requestsAs(selfTest, kubelets, post(nodes, named("v1", "Node", selfTest)))[0]
	require.Eventually(t, func() bool {
		outcome, err := register.run(t.Context(), config)
		return err == nil && outcome == yes
	}, harness.Settles, 50*time.Millisecond, "the dry run is what the right is for")

	register.stored = true
	withStatus := register
	withStatus.body = withField(named("v1", "Node", selfTest), "status", object{"capacity": object{"cpu": "900"}, "conditions": []object{{"type": "Ready", "status": "True"}}})
	for _, request := range []request{register, withStatus, requestsAs(selfTest, kubelets, lease(selfTest))[0]} {
		request.stored = true
		outcome, err := request.run(t.Context(), config)
		require.NoError(t, err)
		assert.Equal(t, selfTest, outcome, "%s %s", request.method, request.path)
	}
	for _, request := range requestsAs(selfTest, kubelets, lives(selfTest)...) {
		if request.right().verb != "get" && request.right().verb != "list" {
			outcome, err := request.run(t.Context(), config)
			if err != nil {
				require.ErrorContains(t, err, `nodes \"nodekeep-self-test\" not found`)
				continue
			}
			assert.Contains(t, []string{selfTest, no}, outcome, "%s %s", request.method, request.path)
		}
	}
	_, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), selfTest, metav1.GetOptions{})
	require.ErrorContains(t, err, "not found")

	_, err = nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: selfTest}}, metav1.CreateOptions{})
	require.ErrorContains(t, err, "ValidatingAdmissionPolicy 'nodekeep-self-test'", "an administrator who creates this Node would give its identity something to read")
	created, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "generated-"}}, metav1.CreateOptions{})
	require.NoError(t, err, "the policy concerns no other Node")
	nodekeep.DeleteNode(t, created.Name)
	nodekeep.Register(t, "another")
	nodekeep.DeleteNode(t, "another")
}
