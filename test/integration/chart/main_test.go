package chart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// settles bounds every wait for something that must happen.
const settles = harness.Settles

// What all tests of this package share. The releases of one test are removed when the next one begins.
var (
	control    *harness.Cluster
	admin      *kubernetes.Clientset
	kubeconfig string
	binary     string // nodekeep
)

func TestMain(m *testing.M) { os.Exit(harness.RunTestsOn(m, harness.Options{}, prepare)) }

// prepare builds nodekeep and puts what every test needs onto the control plane.
func prepare(ctx context.Context, cluster *harness.Cluster) (err error) {
	control = cluster
	if admin, err = kubernetes.NewForConfig(control.Admin()); err != nil {
		return err
	}
	kubeconfig = filepath.Join(control.Dir(), "admin.kubeconfig")
	if err := harness.WriteKubeconfig(kubeconfig, control.Admin()); err != nil {
		return err
	}
	binary = filepath.Join(control.Dir(), "nodekeep")
	if err := harness.Build(ctx, binary); err != nil {
		return err
	}
	return installCertManagerKinds(ctx)
}

// kubectl runs kubectl as admin and returns what it prints.
func kubectl(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, harness.Binary("kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...).CombinedOutput()
	return string(out), err
}

// makeNamespace makes a namespace with these labels unless it is there.
func makeNamespace(ctx context.Context, name string, labels map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
