package nodepolicy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// inForceWith returns the policy of a NodePolicy of generation 4 with these sections and this status, which is JSON.
func inForceWith(t *testing.T, spec, status string) InForce {
	t.Helper()
	object := `{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "default", "uid": "U1", "generation": 4}, "spec": ` + spec + `, "status": ` + status + `}`
	require.True(t, json.Valid([]byte(object)), object)
	in := InForceOf([]byte(object), nil, policy.DefaultGate)
	require.NoError(t, in.Problem)
	return in
}

// podOf returns a Pod of a process.
func podOf(name, component string, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": component}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func TestWhichProcessesHaveNotReadThePolicy(t *testing.T) {
	pods := []corev1.Pod{podOf("verify-1", "verify", "True"), podOf("capture-1", "capture", "True"), podOf("webhook-1", "webhook", "False"), podOf("uninstall-1", "uninstall", "True")}
	ending := podOf("verify-0", "verify", "True")
	ending.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
	pods = append(pods, ending)
	var plural strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&plural, `"invented-%d": %d, `, i, i)
	}
	for name, row := range map[string]struct {
		status string
		behind []string
		doubt  bool
	}{
		"all have":                                {status: `{"readBy": {"verify-1": 4, "capture-1": 4}}`},
		"one has read the one before":             {status: `{"readBy": {"verify-1": 3, "capture-1": 4}}`, behind: []string{"verify-1"}, doubt: true},
		"none has said anything":                  {status: `{}`, behind: []string{"capture-1", "verify-1"}, doubt: true},
		"Pods that are not Ready do not count":    {status: `{"readBy": {"verify-1": 4, "capture-1": 4, "webhook-1": 1}}`, doubt: true},
		"Pods that do not exist do not count":     {status: `{"readBy": {"verify-1": 4, "capture-1": 4, "deleted": 1, "../../etc": 2, "": 3}}`, doubt: true},
		"a generation that never was is not ours": {status: `{"readBy": {"verify-1": 9223372036854775807, "capture-1": -4}}`, behind: []string{"capture-1", "verify-1"}, doubt: true},
		"a number that is none":                   {status: `{"readBy": {"verify-1": 1e99, "capture-1": 4.5}}`, behind: []string{"capture-1", "verify-1"}, doubt: true},
		"other types":                             {status: `{"readBy": {"verify-1": "4", "capture-1": {"a": [4]}}}`, behind: []string{"capture-1", "verify-1"}, doubt: true},
		"no map at all":                           {status: `{"readBy": [4, 4]}`, behind: []string{"capture-1", "verify-1"}, doubt: true},
		"no status at all":                        {status: `"junk"`, behind: []string{"capture-1", "verify-1"}, doubt: true},
		"a list without end":                      {status: `{"readBy": {` + plural.String() + `"verify-1": 4, "capture-1": 4}}`, doubt: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := inForceWith(t, "{}", row.status)
			assert.Equal(t, row.behind, append([]string(nil), in.Behind(pods)...))
			assert.Equal(t, row.doubt, in.Doubtful())
		})
	}
	wrong := InForceOf([]byte(`{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "default", "generation": 4}, "spec": {"cordon": "no"}}`), nil, policy.DefaultGate)
	require.Error(t, wrong.Problem)
	assert.Empty(t, wrong.Behind(pods), "nobody can follow what cannot be used")
	assert.False(t, wrong.Doubtful())
}
