package bed

import (
	"context"
	"fmt"
	"os"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"nodekeep.dev/nodekeep/test/harness"
)

// InformerCommand is the argument with which this program is started again as an idle informer of Nodes. It shows what a watch costs in any program
// that uses client-go.
const InformerCommand = "informer"

// StartInformer starts the informer that does nothing.
func (b *Bed) StartInformer() *harness.Process {
	return b.self(InformerCommand, b.nodekeep.AdminKubeconfig())
}

// self starts this program again with other arguments. The first one is also the name of the process.
func (b *Bed) self(command string, args ...string) *harness.Process {
	path, err := os.Executable()
	require.NoError(b, err)
	process, err := b.cluster.Go(command, path, append([]string{command}, args...))
	require.NoError(b, err)
	return process
}

// WatchNodes watches all Nodes, keeps their names only, and does nothing, until the process is stopped.
func WatchNodes(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	err = informer.SetTransform(func(object any) (any, error) {
		if node, ok := object.(*corev1.Node); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}, nil
		}
		return object, nil
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	informer.RunWithContext(context.Background())
	return nil
}
