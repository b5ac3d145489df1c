package chart

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// installCertManagerKinds installs the CustomResourceDefinitions that cert-manager publishes with its Go module.
func installCertManagerKinds(ctx context.Context) error {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/cert-manager/cert-manager")
	download.Dir = filepath.Join(harness.Root(), "test", "programs", "certmanager")
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("download cert-manager: %w: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("read where cert-manager is: %w", err)
	}
	if out, err := kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(module.Dir, "deploy", "crds")); err != nil {
		return fmt.Errorf("install kinds of cert-manager: %w\n%s", err, out)
	}
	if out, err := kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/certificates.cert-manager.io", "crd/certificaterequests.cert-manager.io", "crd/issuers.cert-manager.io"); err != nil {
		return fmt.Errorf("wait for kinds of cert-manager: %w\n%s", err, out)
	}
	return nil
}

// kubeletLag is how far the mounted files are behind the Secret here, unless they are held. A real kubelet takes up to a minute and a half;
// nothing below depends on how long it is.
const kubeletLag = 3 * time.Second

// With cert-manager's own controllers and CA injector: the certificate is issued, the API server told to trust it, and certificate and CA
// renewed under load. The webhook runs with the arguments and the rights of the chart; only its address is another, because there is no pod
// network.
func TestCertManagerIssuesAndRenewsWithoutAFailedCall(t *testing.T) {
	r := byCertManager{release: release{namespace: "by-cert-manager", serverSide: "true"}, mount: t.TempDir(), held: new(atomic.Bool)}
	startCertManager(t)
	withoutPolicies(t)
	r.helm(t, "install", "nodekeep", harness.Chart(), "--create-namespace", "--set", "certificates.mode=certManager")
	t.Cleanup(func() { r.cleanUp(t) })
	r.alsoForLoopback(t)
	first := r.issued(t, nil)
	r.mountLikeAKubelet(t)
	address := r.startWebhook(t)
	r.pointAt(t, address)
	harness.Eventually(t, func() bool { return called(t) }, settles, 100*time.Millisecond, "the API server must come to believe the webhook")
	harness.Eventually(t, func() bool {
		now := r.look(t)
		return len(now.mutating) > 0 && bytes.Equal(now.mutating, now.validating)
	}, settles, 100*time.Millisecond, "injected into both configurations")
	stop := callAllTheWhile(t)

	r.renew(t, "nodekeep-webhook")
	second := r.issued(t, first["tls.crt"])
	r.untilServed(t, address, second)
	assert.NotEqual(t, first["tls.key"], second["tls.key"], "each certificate has a key of its own")
	assert.Equal(t, first["ca.crt"], second["ca.crt"])

	r.held.Store(true)
	oldCA := r.secret(t, "nodekeep-ca")
	r.renew(t, "nodekeep-ca")
	harness.Eventually(t, func() bool { return !bytes.Equal(oldCA["tls.crt"], r.secret(t, "nodekeep-ca")["tls.crt"]) }, settles, 100*time.Millisecond)
	r.renew(t, "nodekeep-webhook")
	third := r.issued(t, second["tls.crt"])
	assert.NotEqual(t, second["ca.crt"], third["ca.crt"], "by the new CA")
	harness.Eventually(t, func() bool {
		return bytes.Equal(third["ca.crt"], r.look(t).mutating) && bytes.Equal(third["ca.crt"], r.look(t).validating)
	}, settles, 20*time.Millisecond)
	assert.Equal(t, second["tls.crt"], r.mounted(t), "the webhook serves the old certificate still, and the API server trusts the new CA only")
	r.held.Store(false)
	r.untilServed(t, address, third)

	calls, failed, excused := stop()
	t.Logf("%d registrations, %d of them not seen by the webhook, and %d more that took longer than it may", calls, failed, excused)
	assert.Zero(t, failed)
	assert.Greater(t, calls-excused, 20)
}

// byCertManager is a release with its certificate from cert-manager.
type byCertManager struct {
	release
	mount string
	held  *atomic.Bool // the mounted files stay as they are
}

func startCertManager(t *testing.T) {
	t.Helper()
	program := filepath.Join(harness.Root(), ".bin", "cert-manager")
	require.FileExists(t, program, "make tools builds it")
	process, err := control.Go("cert-manager", program, nil, "KUBECONFIG="+kubeconfig)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, process.Stop()) })
}

// alsoForLoopback has the certificate cover the address at which the webhook is called here.
func (r byCertManager) alsoForLoopback(t *testing.T) {
	t.Helper()
	out, err := kubectl(t.Context(), "-n", r.namespace, "patch", "certificate", "nodekeep-webhook", "--type=merge", "-p", `{"spec":{"ipAddresses":["127.0.0.1"]}}`)
	require.NoError(t, err, out)
}

// issued waits for a certificate for loopback, other than the one before, and returns the Secret.
func (r byCertManager) issued(t *testing.T, head []byte) (data map[string][]byte) {
	t.Helper()
	harness.Eventually(t, func() bool {
		data = r.secret(t, "nodekeep-webhook-certificate")
		pair, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
		return err == nil && !bytes.Equal(head, data["tls.crt"]) && len(pair.Leaf.IPAddresses) == 1 && len(data["ca.crt"]) > 0
	}, settles, 100*time.Millisecond)
	leaf, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	require.NoError(t, err)
	assert.Equal(t, x509.ECDSA, leaf.Leaf.PublicKeyAlgorithm)
	assert.InDelta(t, (168 * time.Hour).Seconds(), leaf.Leaf.NotAfter.Sub(leaf.Leaf.NotBefore).Seconds(), 60)
	assert.Contains(t, leaf.Leaf.DNSNames, "nodekeep-webhook."+r.namespace+".svc")
	return data
}

func (r byCertManager) secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	secret, err := admin.CoreV1().Secrets(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return secret.Data
}

// renew asks for a new certificate as `cmctl renew` does.
func (r byCertManager) renew(t *testing.T, certificate string) {
	t.Helper()
	issuing := fmt.Sprintf(`[{"op": "add", "path": "/status/conditions/-", "value": {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test", "lastTransitionTime": %q}}]`, time.Now().UTC().Format(time.RFC3339))
	require.Eventually(t, func() bool { // the one before may not be quite over
		_, err := kubectl(t.Context(), "-n", r.namespace, "patch", "certificate", certificate, "--subresource=status", "--type=json", "-p", issuing)
		return err == nil
	}, settles, time.Second)
}

// mountLikeAKubelet keeps files up to date with the Secret, late, through a link that is swapped in one step.
func (r byCertManager) mountLikeAKubelet(t *testing.T) {
	t.Helper()
	put := func(data map[string][]byte) {
		version := filepath.Join(r.mount, fmt.Sprintf("..%d", time.Now().UnixNano()))
		require.NoError(t, os.Mkdir(version, 0o700))
		for file, content := range data {
			require.NoError(t, os.WriteFile(filepath.Join(version, file), content, 0o600))
		}
		require.NoError(t, os.Symlink(filepath.Base(version), filepath.Join(r.mount, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(r.mount, "..data_tmp"), filepath.Join(r.mount, "..data")))
	}
	now := r.secret(t, "nodekeep-webhook-certificate")
	put(now)
	for file := range now {
		require.NoError(t, os.Symlink(filepath.Join("..data", file), filepath.Join(r.mount, file)))
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); group.Wait() })
	group.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
			secret, err := admin.CoreV1().Secrets(r.namespace).Get(ctx, "nodekeep-webhook-certificate", metav1.GetOptions{})
			if err != nil || bytes.Equal(secret.Data["tls.crt"], now["tls.crt"]) || r.held.Load() {
				continue
			}
			time.Sleep(kubeletLag)
			now = secret.Data
			put(now)
		}
	})
}

func (r byCertManager) mounted(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.mount, "tls.crt"))
	require.NoError(t, err)
	return content
}

// startWebhook runs the webhook with the arguments of its Deployment and its ServiceAccount, and returns its address.
func (r byCertManager) startWebhook(t *testing.T) string {
	t.Helper()
	deployment, err := admin.AppsV1().Deployments(r.namespace).Get(t.Context(), "nodekeep-webhook", metav1.GetOptions{})
	require.NoError(t, err)
	config, err := control.ServiceAccount(t.Context(), r.namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(file, config))
	addresses, err := harness.FreeAddresses(1)
	require.NoError(t, err)
	args := append([]string{}, deployment.Spec.Template.Spec.Containers[0].Args...)
	for i, arg := range args {
		if strings.HasPrefix(arg, "--cert-dir=") {
			args[i] = "--cert-dir=" + r.mount
		}
	}
	args = append(args, "--kubeconfig", file, "--bind-address", addresses[0],
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--drain", "0s")
	process, err := control.Go("webhook-by-cert-manager", binary, args)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, process.Stop()) })
	return addresses[0]
}

// pointAt has the API server call the webhook where it is. caBundle is left to the injector.
func (r byCertManager) pointAt(t *testing.T, address string) {
	t.Helper()
	patch := func(path string) []byte {
		return fmt.Appendf(nil, `[{"op": "remove", "path": "/webhooks/0/clientConfig/service"}, {"op": "add", "path": "/webhooks/0/clientConfig/url", "value": "https://%s%s"}]`, address, path)
	}
	client := admin.AdmissionregistrationV1()
	// An API server does not take a webhook without a CA that it could not verify, and the injector comes to one after the other.
	require.Eventually(t, func() bool {
		_, err := client.MutatingWebhookConfigurations().Patch(t.Context(), "nodekeep", types.JSONPatchType, patch("/restore"), metav1.PatchOptions{})
		return err == nil
	}, settles, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := client.ValidatingWebhookConfigurations().Patch(t.Context(), "nodekeep", types.JSONPatchType, patch("/deletion"), metav1.PatchOptions{})
		return err == nil
	}, settles, 100*time.Millisecond)
}

// untilServed waits until the webhook shows the certificate of the Secret.
func (r byCertManager) untilServed(t *testing.T, address string, secret map[string][]byte) {
	t.Helper()
	want, err := tls.X509KeyPair(secret["tls.crt"], secret["tls.key"])
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is only looked at
		if err != nil {
			return false
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].Equal(want.Leaf)
	}, settles, 100*time.Millisecond)
}

// called reports whether a registration was seen by the webhook: it stamps every one.
func called(t *testing.T) bool {
	node, err := admin.CoreV1().Nodes().Create(context.WithoutCancel(t.Context()), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "called"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !assert.NoError(t, err, "a Node must always be able to register") {
		return false
	}
	_, stamped := node.Annotations[policy.StampAnnotation]
	return stamped
}

// callAllTheWhile registers Nodes until stop is called, which returns how many, and how many the webhook has not seen. Of these, those
// that took a second or longer are excused: when the machine stalls that long, the API server goes on without the webhook. A certificate
// that it does not believe fails at once.
func callAllTheWhile(t *testing.T) (stop func() (calls, failed, excused int)) {
	t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	calls, failed, excused := 0, 0, 0
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			began := time.Now()
			seen := called(t)
			calls++
			switch {
			case seen:
			case time.Since(began) < time.Second:
				failed++
			default:
				excused++
			}
		}
	})
	first := sync.OnceFunc(func() { close(done); group.Wait() })
	t.Cleanup(first)
	return func() (int, int, int) { first(); return calls, failed, excused }
}

// cleanUp leaves nothing of the release for the next test.
func (r byCertManager) cleanUp(t *testing.T) {
	t.Helper()
	_, err := harness.RunHelm(context.Background(), "uninstall", "nodekeep", "--no-hooks", "--namespace", r.namespace, "--kubeconfig", kubeconfig)
	assert.NoError(t, err)
}
