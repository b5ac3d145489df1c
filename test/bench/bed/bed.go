package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// Bed is a control plane with nodekeep's manifests on it. Neither process runs and no webhook is configured.
type Bed struct {
	// Admin may do anything. API priority and fairness does not hold it up.
	Admin *kubernetes.Clientset
	// Kubelets registers and changes Nodes as the kubelets of the names that [AsKubelet] puts in the context.
	Kubelets *kubernetes.Clientset
	// Writer has capture's identity and makes its requests in the same format, without a limit on its rate.
	Writer *kubernetes.Clientset
	// Metadata reads objects without their contents, as an admin.
	Metadata metadata.Interface
	// Images is how many images each Node has, AllImages at most and at first.
	Images int
	// Route, if it is set, changes how started processes reach the API server: through a proxy that counts, say.
	Route func(direct *rest.Config) *rest.Config

	cluster     *harness.Cluster
	nodekeep    *harness.Installation
	web         *http.Client // for probes and metrics
	certificate []byte       // of the authority of every webhook's
	reference   *reference   // nil until it is needed
	webhook     *Program     // the one that was started last
	gated       bool         // the gate policy is in force
	guarded     bool         // the guard policies are in force
}

// Files of the certificate that all webhooks serve with, in the folder of the cluster.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

// New starts the control plane, in a temporary folder, builds nodekeep and applies the manifests.
func New(ctx context.Context) (*Bed, error) { return start(ctx, harness.Install) }

// NewOf is New with another build of nodekeep and the manifests that belong to it.
func NewOf(ctx context.Context, product harness.Product) (*Bed, error) {
	return start(ctx, func(ctx context.Context, control *harness.Cluster) (*harness.Installation, error) {
		return harness.InstallProduct(ctx, control, product)
	})
}

func start(ctx context.Context, nodekeep func(context.Context, *harness.Cluster) (*harness.Installation, error)) (b *Bed, err error) {
	control, err := harness.StartCluster(ctx, harness.Options{})
	if err != nil {
		return nil, err
	}
	b = &Bed{Images: AllImages, cluster: control, gated: true, guarded: true, web: &http.Client{Timeout: 30 * time.Second}}
	defer func() {
		if err != nil { // b is nil by then
			_ = control.Stop()
		}
	}()
	if b.nodekeep, err = nodekeep(ctx, control); err != nil {
		return nil, err
	}
	if err := b.writeCertificate(); err != nil {
		return nil, err
	}
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	return b, b.clear(ctx)
}

func (b *Bed) writeCertificate() error {
	authority, err := harness.NewAuthority()
	if err != nil {
		return err
	}
	b.certificate = authority.PEM
	cert, key, err := authority.Server([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now().Add(24*time.Hour))
	if err != nil {
		return err
	}
	dir := b.cluster.Dir()
	return errors.Join(os.WriteFile(filepath.Join(dir, certFile), cert, 0o600), os.WriteFile(filepath.Join(dir, keyFile), key, 0o600))
}

func (b *Bed) connect(ctx context.Context) (err error) {
	admin := protobuf(b.cluster.Admin())
	if b.Admin, err = kubernetes.NewForConfig(admin); err != nil {
		return fmt.Errorf("make admin client: %w", err)
	}
	if b.Metadata, err = metadata.NewForConfig(admin); err != nil {
		return fmt.Errorf("make metadata client: %w", err)
	}
	kubelets := protobuf(b.cluster.Admin())
	kubelets.UserAgent = "kubelet/nodekeep-bench"
	kubelets.Wrap(func(next http.RoundTripper) http.RoundTripper { return identity{next} })
	if b.Kubelets, err = kubernetes.NewForConfig(kubelets); err != nil {
		return fmt.Errorf("make kubelet client: %w", err)
	}
	writer, err := b.account(ctx, captureProcess)
	if err != nil {
		return err
	}
	if b.Writer, err = kubernetes.NewForConfig(writer); err != nil {
		return fmt.Errorf("make client of capture: %w", err)
	}
	return nil
}

// clear takes the shipped webhook configurations and the gate away, which the benchmarks add by themselves.
func (b *Bed) clear(ctx context.Context) error {
	client := b.Admin.AdmissionregistrationV1()
	if err := client.MutatingWebhookConfigurations().Delete(ctx, "nodekeep", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete mutating webhook configuration: %w", err)
	}
	if err := client.ValidatingWebhookConfigurations().Delete(ctx, "nodekeep", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete validating webhook configuration: %w", err)
	}
	return b.Use(ctx, Variant{})
}

// account is the config of a ServiceAccount of the manifests, and writes its kubeconfig.
func (b *Bed) account(ctx context.Context, process string) (*rest.Config, error) {
	config, err := b.cluster.ServiceAccount(ctx, harness.Namespace, process)
	if err != nil {
		return nil, err
	}
	if b.Route != nil {
		config = b.Route(config)
	}
	return config, harness.WriteKubeconfig(b.kubeconfig(process), config)
}

func (b *Bed) kubeconfig(process string) string {
	return filepath.Join(b.cluster.Dir(), process+".kubeconfig")
}

// ControlPlane names the processes that are measured together with ours, for their memory.
func (b *Bed) ControlPlane() []*harness.Process {
	return []*harness.Process{b.cluster.Process("etcd"), b.cluster.Process("kube-apiserver")}
}

// Through starts a proxy to the API server. Processes that start from now on use it.
func (b *Bed) Through() (*proxy.Proxy, error) {
	p, err := proxy.Start(b.cluster.Admin())
	if err != nil {
		return nil, err
	}
	b.Route = p.Through
	return p, nil
}

// SetPolicy replaces the policy file, which processes read at their start and follow.
func (b *Bed) SetPolicy(content string) error { return b.nodekeep.WritePolicy(content) }

// Close stops everything that was started, by process id.
func (b *Bed) Close() error { return b.cluster.Stop() }

// protobuf is the format that kubelets speak; it costs the client and the API server less than JSON.
func protobuf(config *rest.Config) *rest.Config {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return config
}
