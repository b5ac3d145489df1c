package harness_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
)

// In selfSigned mode the webhook's ServiceAccount may patch its webhook configurations. An ordinary ValidatingAdmissionPolicy is not
// asked about these; the policy of manifests/static-admission, which the API server reads from a file, is.
func TestAStaticAdmissionPolicyConfinesTheWebhooksServiceAccountToTheCABundle(t *testing.T) {
	skipWithoutControlPlane(t)
	_, flag := harness.StaticAdmission(t)
	c := harness.ForTest(t, harness.Options{APIServerArgs: []string{"--feature-gates=ManifestBasedAdmissionControlConfig=true", flag}})
	thief := thiefOf(t, c)
	require.NoError(t, thief(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"bmV3"}]`), "this is all that nodekeep itself does")
	for _, change := range []string{
		`{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}`, // TestCluster shows that it is allowed without the policy
		`{"op":"replace","path":"/webhooks/0/clientConfig/url","value":"https://thief.example.com/"}`,
		`{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}`,
		`{"op":"add","path":"/webhooks/0/matchConditions","value":[{"name":"a","expression":"true"}]}`,
		`{"op":"add","path":"/webhooks/0/objectSelector","value":{"matchLabels":{"a":"b"}}}`,
		`{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}`,
		`{"op":"replace","path":"/webhooks/0/reinvocationPolicy","value":"IfNeeded"}`,
		`{"op":"add","path":"/webhooks/-","value":{"name":"b.nodekeep.dev","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://thief.example.com/"}}}`,
		`{"op":"remove","path":"/webhooks/0"}`,
	} {
		require.ErrorContains(t, thief("["+change+"]"), "nodekeep-webhook may change caBundle only", change)
	}
	admin := client(t, c.Admin()).AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := admin.Patch(t.Context(), "nodekeep", types.JSONPatchType, []byte(`[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`), metav1.PatchOptions{})
	assert.NoError(t, err, "an administrator may change everything")
}

// thiefOf installs a webhook configuration and the right that the chart gives in selfSigned mode, and returns what patches the
// configuration as the webhook's ServiceAccount.
func thiefOf(t *testing.T, c *harness.Cluster) func(patch string) error {
	t.Helper()
	admin := client(t, c.Admin())
	url, empty, ignore := "https://127.0.0.1:9/restore", admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	_, err := admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "nodekeep"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "restore.nodekeep.dev", SideEffects: &empty, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"}, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	const account = "system:serviceaccount:nodekeep-system:nodekeep-webhook"
	_, err = admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nodekeep-webhook"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, ResourceNames: []string{"nodekeep"}, Verbs: []string{"get", "patch"},
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodekeep-webhook"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodekeep-webhook"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: account}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.CopyConfig(c.Admin())
	config.Impersonate = rest.ImpersonationConfig{UserName: account}
	thief, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := thief.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
		return err == nil
	}, harness.Settles, 50*time.Millisecond, "the right must come into force")
	return func(patch string) error {
		_, err := thief.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "nodekeep", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("patch webhook configuration: %w", err)
		}
		return nil
	}
}
