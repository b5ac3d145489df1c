//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodekeep.dev/nodekeep/test/harness"
)

// cluster is the one that KUBECONFIG names, and what the suite has on it.
type cluster struct {
	settings
	config *rest.Config
	admin  *kubernetes.Clientset
	// objects reads objects of any kind without their contents.
	objects metadata.Interface
	// nodes has what tests do with Nodes, for which it needs the admin alone.
	nodes *harness.Installation
	// run is in the names and marks of everything that this run makes.
	run string
	// home is helm's.
	home string
}

// connect reads the settings and makes a client. KUBECONFIG must be set: a suite that uninstalls things has no default.
func connect() (*cluster, error) {
	if os.Getenv("KUBECONFIG") == "" {
		return nil, errors.New("find a cluster: KUBECONFIG is not set; it names the file for the cluster on which nodekeep is to be installed and uninstalled")
	}
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read KUBECONFIG: %w", err)
	}
	config.QPS, config.UserAgent = -1, "nodekeep-e2e"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make metadata client: %w", err)
	}
	home, err := os.MkdirTemp("", "nodekeep-e2e-")
	if err != nil {
		return nil, err
	}
	return &cluster{
		settings: s, config: config, admin: client, objects: objects, nodes: &harness.Installation{Admin: client},
		run: utilrand.String(5), home: home,
	}, nil
}

// mayRun says why the suite must not or cannot run here, if so.
func (c *cluster) mayRun(ctx context.Context) error {
	for _, kind := range []string{"users", "groups"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: kind},
		}}
		review, err := c.admin.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask %s: %w", c.config.Host, err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("ask %s: the user of KUBECONFIG may not impersonate %s, as kubelets are here: use one in group system:masters or with ClusterRole cluster-admin", c.config.Host, kind)
		}
	}
	found, err := c.nodekeeps(ctx)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("look for nodekeep on %s: it is there (%s); a run would take it off the cluster: use another one, or say NODEKEEP_E2E_REPLACE=namespace/release to have that release and its records removed first",
			c.config.Host, strings.Join(found, ", "))
	}
	return nil
}

// nodekeeps lists what there is of nodekeep on the cluster, ours included.
func (c *cluster) nodekeeps(ctx context.Context) (found []string, err error) {
	deployments, err := c.admin.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep"})
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	for _, d := range deployments.Items {
		found = append(found, "deployment "+d.Namespace+"/"+d.Name)
	}
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	for _, object := range []struct {
		kind schema.GroupVersionResource
		name string
	}{
		{admission.WithResource("mutatingwebhookconfigurations"), "nodekeep"},
		{admission.WithResource("validatingwebhookconfigurations"), "nodekeep"},
		{admission.WithResource("mutatingadmissionpolicies"), "nodekeep-gate"},
		{admission.WithResource("mutatingadmissionpolicybindings"), "nodekeep-gate"},
		{rbac.WithResource("clusterroles"), "nodekeep-capture"},
		{rbac.WithResource("clusterroles"), "nodekeep-webhook"},
	} {
		switch _, err := c.objects.Resource(object.kind).Get(ctx, object.name, metav1.GetOptions{}); {
		case err == nil:
			found = append(found, object.kind.Resource+" "+object.name)
		case !apierrors.IsNotFound(err): // older clusters have no gate policies; those answer 404 too
			return nil, fmt.Errorf("look for %s %s: %w", object.kind.Resource, object.name, err)
		}
	}
	return found, nil
}

// makeNamespace makes the release namespace, with the mark. Pods on the host network need the privileged profile.
func (c *cluster) makeNamespace(t *testing.T) {
	t.Helper()
	_, err := c.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
		mark: c.run, "pod-security.kubernetes.io/enforce": "privileged",
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
}
