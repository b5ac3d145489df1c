package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Namespace is the release namespace of the manifests.
const Namespace = "nodekeep-system"

// Files that are applied.
const (
	manifest          = "nodekeep.yaml"
	namespaceManifest = "namespace.yaml"
	crdManifest       = "crd.yaml"
	// It is applied over them where protected labels are restored in the CREATE itself.
	inlineManifest = "nodekeep-inline.yaml"
)

// Names of the processes and their log files.
const (
	webhookName = "nodekeep-webhook"
	captureName = "nodekeep-capture"
)

// Patient is a time (in seconds) for tests that are not about the webhook's timeout. While tests keep all CPUs busy, a second may pass before the
// webhook runs at all. Nodes then pass unpatched, as they should.
const Patient = 5

// timeout bounds every wait for something to come up.
const timeout = Settles

// Installation is nodekeep on a control plane.
type Installation struct {
	Cluster *Cluster
	// Admin is a client that may do anything; nodekeep never uses it.
	Admin *kubernetes.Clientset

	// Route returns how a process ("nodekeep-webhook" or "nodekeep-capture") reaches the API server at its next start, through a proxy, say. It may
	// be nil.
	Route func(process string, direct *rest.Config) *rest.Config
	// TimeoutSeconds is how long the API server waits for the webhook; 0: the shipped timeout.
	TimeoutSeconds int
	// CaptureArgs are added behind capture's own arguments the next time it is started.
	CaptureArgs []string

	binary      string
	manifests   string // folder
	admin       string // kubeconfig
	webhookPort string
	probes      map[string]string // addresses, by process
	metrics     map[string]string // addresses, by process
}

// Install builds the nodekeep binary and applies the manifests. Neither process runs yet.
func Install(ctx context.Context, c *Cluster) (*Installation, error) {
	binary := filepath.Join(c.Dir(), "nodekeep")
	if err := Build(ctx, binary); err != nil {
		return nil, err
	}
	return InstallProduct(ctx, c, Product{Binary: binary, Manifests: Manifests()})
}

// InstallOn applies the manifests of this installation on another control plane, for the same program. Neither process runs there yet.
func (i *Installation) InstallOn(ctx context.Context, c *Cluster) (*Installation, error) {
	return InstallProduct(ctx, c, Product{Binary: i.binary, Manifests: i.manifests})
}

// Product is a build of nodekeep that is there already, and the folder of the manifests that belong to it.
type Product struct {
	Binary, Manifests string
}

// InstallProduct applies the manifests of a build, and a NodePolicy that says nothing. Neither process runs yet.
func InstallProduct(ctx context.Context, c *Cluster, product Product) (*Installation, error) {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return nil, fmt.Errorf("make admin client: %w", err)
	}
	i := &Installation{
		Cluster:   c,
		Admin:     client,
		binary:    product.Binary,
		manifests: product.Manifests,
		admin:     filepath.Join(c.Dir(), "admin.kubeconfig"),
	}
	if err := WriteKubeconfig(i.admin, c.Admin()); err != nil {
		return nil, err
	}
	if err := i.applyAll(ctx); err != nil {
		return nil, err
	}
	if err := i.WritePolicy(ctx, defaultPolicy); err != nil {
		return nil, err
	}
	return i, i.choosePorts()
}

// Manifest returns the path of the file that is installed: the chart as rendered with its default values.
func Manifest() string { return filepath.Join(Manifests(), manifest) }

// manifestsVariable names the folder of manifests to install, rendered for another version of Kubernetes.
const manifestsVariable = "NODEKEEP_MANIFESTS"

// Manifests returns the folder of both files.
func Manifests() string {
	if dir := os.Getenv(manifestsVariable); dir != "" {
		return dir
	}
	return filepath.Join(Root(), "manifests")
}

// Reapply installs the manifests anew: their defaults, and over them the files named ("nodekeep-inline.yaml"). The webhook must be
// stopped, and started again after it.
func (i *Installation) Reapply(ctx context.Context, further ...string) error {
	const configurations = "mutatingwebhookconfigurations.admissionregistration.k8s.io,validatingwebhookconfigurations.admissionregistration.k8s.io"
	if out, err := i.Kubectl(ctx, "delete", "--ignore-not-found", configurations, "nodekeep"); err != nil {
		return fmt.Errorf("delete webhook configurations: %w\n%s", err, out)
	}
	return i.applyAll(ctx, further...)
}

// apply applies a file of the manifests, but for a NodePolicy.
func (i *Installation) apply(ctx context.Context, file string, args ...string) error {
	path, err := i.withoutPolicy(filepath.Join(i.manifests, file))
	if err != nil {
		return err
	}
	args = append([]string{"apply", "--server-side", "-f", path}, args...)
	if out, err := i.Kubectl(ctx, args...); err != nil {
		return fmt.Errorf("apply %s: %w\n%s", file, err, out)
	}
	return nil
}

// applyAll applies the manifests, and over them the files named.
func (i *Installation) applyAll(ctx context.Context, further ...string) error {
	if err := i.ApplyCRD(ctx); err != nil {
		return err
	}
	for _, file := range append([]string{namespaceManifest, manifest}, further...) {
		if err := i.apply(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// ReadyURL returns where a process ("webhook" or "capture") shows whether it is ready.
func (i *Installation) ReadyURL(process string) string {
	return "http://" + i.probes["nodekeep-"+process] + "/readyz"
}

// Binary returns the path of the nodekeep program.
func (i *Installation) Binary() string { return i.binary }

// AdminKubeconfig returns the path of a kubeconfig for an admin.
func (i *Installation) AdminKubeconfig() string { return i.admin }

// Kubectl runs kubectl as admin and returns what it prints.
func (i *Installation) Kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, Binary("kubectl"), append([]string{"--kubeconfig", i.admin, "--cache-dir", filepath.Join(i.Cluster.Dir(), "kubectl")}, args...)...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// MustKubectl is Kubectl for commands that must succeed.
func (i *Installation) MustKubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := i.Kubectl(t.Context(), args...)
	require.NoError(t, err, "kubectl %s: %s", strings.Join(args, " "), out)
	return out
}

// MetricsURL returns where a process ("webhook" or "capture") serves its metrics.
func (i *Installation) MetricsURL(process string) string {
	return "http://" + i.metrics["nodekeep-"+process] + "/metrics"
}

func (i *Installation) choosePorts() error {
	free, err := FreeAddresses(7)
	if err != nil {
		return err
	}
	i.webhookPort = port(free[0])
	i.probes = map[string]string{webhookName: free[1], captureName: free[2], verifyName: free[5]}
	i.metrics = map[string]string{webhookName: free[3], captureName: free[4], verifyName: free[6]}
	return nil
}

// run starts one of the processes as its ServiceAccount and waits until it is ready.
func (i *Installation) run(ctx context.Context, name string, args ...string) error {
	config, err := i.Cluster.ServiceAccount(ctx, Namespace, name)
	if err != nil {
		return err
	}
	if i.Route != nil {
		config = i.Route(name, config)
	}
	kubeconfig := filepath.Join(i.Cluster.Dir(), name+".kubeconfig")
	if err := WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	args = append(args,
		"--kubeconfig", kubeconfig,
		"--namespace", Namespace,
		"--health-probe-bind-address", i.probes[name],
		"--metrics-bind-address", i.metrics[name],
	)
	process, err := i.Cluster.Go(name, i.binary, args, "POD_NAME="+name)
	if err != nil {
		return err
	}
	return await(ctx, process, answers("http://"+i.probes[name]+"/readyz"))
}

func (i *Installation) stop(name string) error {
	if process := i.Cluster.Process(name); process != nil {
		return process.Stop()
	}
	return nil
}

// Use makes the processes run another program from their next start on, with the same arguments.
func (i *Installation) Use(binary string) { i.binary = binary }

// built names the nodekeep binary that the tests take instead of building one: `make test` links it once for all packages.
const built = "NODEKEEP_TESTS_BINARY"

// Build builds nodekeep as it is shipped: static and stripped. Linked dynamically, it would carry the names of all symbols, and
// take more memory than the released ones.
func Build(ctx context.Context, binary string) error {
	if made := os.Getenv(built); made != "" {
		if err := os.Symlink(made, binary); err != nil {
			return fmt.Errorf("take the binary that %s names: %w", built, err)
		}
		return nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/nodekeep")
	build.Dir, build.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build nodekeep: %w\n%s", err, out)
	}
	return nil
}
