package bed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
)

// Bed is a control plane with nodekeep's manifests on it. Neither process runs and no webhook is configured. Methods that return no error end the
// run when they fail.
type Bed struct {
	*Run

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
	web         *http.Client // for probes, metrics and webhooks
	certificate []byte       // of the authority of every webhook's
	reference   *reference   // nil until it is needed
	webhook     *Program     // the one that was started last
	gated       bool         // the gate policy is in force
	guarded     bool         // the guard policies are in force

	// What the chart has the API server call, under other names.
	restoreHook admissionregistrationv1.MutatingWebhook
	captureHook admissionregistrationv1.ValidatingWebhook
}

// Files of the certificate that all webhooks serve with, in the folder of the cluster.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

// Look is the interval of most polls. A measured start or failover can be wrong by this time.
const Look = 5 * time.Millisecond

// New starts the control plane, in a temporary folder, and applies the manifests of a build of nodekeep. Without a build it builds this tree.
func New(ctx context.Context, run *Run, build harness.Product) *Bed {
	control, err := harness.StartCluster(ctx, harness.Options{})
	require.NoError(run, err)
	run.Cleanup(control.Stop)
	b := &Bed{Run: run, Images: AllImages, cluster: control, gated: true, guarded: true}
	if build.Binary == "" {
		b.nodekeep, err = harness.Install(ctx, control)
	} else {
		b.nodekeep, err = harness.InstallProduct(ctx, control, build)
	}
	require.NoError(run, err)
	b.writeCertificate()
	b.connect(ctx)
	b.takeShipped(ctx)
	b.bind(ctx)
	b.Use(ctx, Variant{})
	return b
}

func (b *Bed) writeCertificate() {
	authority, err := harness.NewAuthority()
	require.NoError(b, err)
	b.certificate = authority.PEM
	cert, key, err := authority.Server([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now().Add(24*time.Hour))
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(b.file(certFile), cert, 0o600))
	require.NoError(b, os.WriteFile(b.file(keyFile), key, 0o600))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(b.certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	b.web = &http.Client{Timeout: 30 * time.Second, Transport: transport}
}

func (b *Bed) connect(ctx context.Context) {
	admin := protobuf(b.cluster.Admin())
	b.Admin = b.client(admin)
	var err error
	b.Metadata, err = metadata.NewForConfig(admin)
	require.NoError(b, err)
	kubelets := protobuf(b.cluster.Admin())
	kubelets.UserAgent = "kubelet/nodekeep-bench"
	kubelets.Wrap(func(next http.RoundTripper) http.RoundTripper { return identity{next} })
	b.Kubelets = b.client(kubelets)
	b.Writer = b.client(b.account(ctx, captureProcess))
}

func (b *Bed) client(config *rest.Config) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	return client
}

// account returns the config of a ServiceAccount of the manifests, and writes its kubeconfig.
func (b *Bed) account(ctx context.Context, process string) *rest.Config {
	config, err := b.cluster.ServiceAccount(ctx, harness.Namespace, process)
	require.NoError(b, err)
	if b.Route != nil {
		config = b.Route(config)
	}
	require.NoError(b, harness.WriteKubeconfig(b.kubeconfig(process), config))
	return config
}

func (b *Bed) kubeconfig(process string) string { return b.file(process + ".kubeconfig") }

func (b *Bed) file(name string) string { return filepath.Join(b.cluster.Dir(), name) }

// ControlPlane names the processes that are measured together with ours, for their memory.
func (b *Bed) ControlPlane() []*harness.Process {
	return []*harness.Process{b.cluster.Process("etcd"), b.cluster.Process("kube-apiserver")}
}

// SetPolicy replaces the policy, which processes read at their start and follow.
func (b *Bed) SetPolicy(ctx context.Context, content string) {
	require.NoError(b, b.nodekeep.WritePolicy(ctx, content))
}

// Wait asks every so often until done says yes, for so long at most. The error says "wait until" and what.
func (b *Bed) Wait(ctx context.Context, limit, interval time.Duration, subject string, done func(ctx context.Context) (bool, error)) {
	err := wait.PollUntilContextTimeout(ctx, interval, limit, true, done)
	require.NoError(b, err, "wait until %s", subject)
}

// get reads a page that one of the started processes serves.
func (b *Bed) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	response, err := b.web.Do(request)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// ignoreNotFound returns the error of a deletion, where that means something else than that the object is deleted.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// protobuf returns the format that kubelets speak; it costs the client and the API server less than JSON.
func protobuf(config *rest.Config) *rest.Config {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return config
}
