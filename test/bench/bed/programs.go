package bed

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
)

// Names of the processes, which are those of their ServiceAccounts.
const (
	webhookProcess = "nodekeep-webhook"
	captureProcess = "nodekeep-capture"
)

// startLimit bounds the wait until a process is ready, with 100,000 Nodes to read.
const startLimit = 10 * time.Minute

// Program is one of nodekeep's processes.
type Program struct {
	*harness.Process
	// Ready is how long it took from the start of the process until it was ready.
	Ready time.Duration

	bed     *Bed
	metrics string // addresses
	pprof   string
	reviews string // webhook only
}

// StartWebhook starts the webhook and waits until it is ready. The API server does not call it before Use or Install.
func (b *Bed) StartWebhook(ctx context.Context) *Program {
	return b.StartWebhookIn(ctx, harness.Namespace)
}

// StartWebhookIn is StartWebhook with the records of a namespace. Only that of the manifests is one that the webhook's
// ServiceAccount may read; with others it runs as an admin.
func (b *Bed) StartWebhookIn(ctx context.Context, namespace string) *Program {
	reviews := b.freeAddresses(1)[0]
	name, kubeconfig := webhookProcess, b.kubeconfig(webhookProcess)
	if namespace != harness.Namespace {
		name, kubeconfig = webhookProcess+"-"+namespace, b.nodekeep.AdminKubeconfig()
	} else {
		b.account(ctx, webhookProcess)
	}
	b.webhook = b.start(ctx, name, nil, "webhook", "--cert-dir", b.cluster.Dir(), "--bind-address", reviews, "--drain", "0s",
		"--kubeconfig", kubeconfig, "--namespace", namespace)
	b.webhook.reviews = reviews
	return b.webhook
}

// StartCapture starts a capture and waits until it is ready: leading, or as a standby. The suffix distinguishes them.
func (b *Bed) StartCapture(ctx context.Context, suffix string, args ...string) *Program {
	b.account(ctx, captureProcess)
	return b.start(ctx, captureProcess+suffix, nil, append([]string{
		"capture", "--leader-elect", "--kubeconfig", b.kubeconfig(captureProcess), "--namespace", harness.Namespace,
	}, args...)...)
}

// Unverified is the taint of a Node that is to be verified, by the default of a profile.
var Unverified = corev1.Taint{Key: "nodekeep.dev/unverified", Effect: corev1.TaintEffectNoSchedule}

// StartVerify starts the controller of verification with a policy, and waits until it is ready. It runs as an admin: its ServiceAccount is not
// installed.
func (b *Bed) StartVerify(ctx context.Context, name, policy string, env ...string) *Program {
	b.SetPolicy(ctx, policy)
	return b.start(ctx, name, env, "verify", "--leader-elect=false", "--image", "nodekeep:bench",
		"--kubeconfig", b.nodekeep.AdminKubeconfig(), "--namespace", harness.Namespace)
}

// start starts a program with further variables of the environment, and waits until it is ready.
func (b *Bed) start(ctx context.Context, name string, env []string, args ...string) *Program {
	free := b.freeAddresses(3)
	p := &Program{bed: b, metrics: free[1], pprof: free[2]}
	args = append(args, "--health-probe-bind-address", free[0], "--metrics-bind-address", p.metrics, "--pprof-bind-address", p.pprof)
	began := time.Now()
	var err error
	p.Process, err = b.cluster.Go(name, b.nodekeep.Binary(), args, env...)
	require.NoError(b, err)
	err = wait.PollUntilContextTimeout(ctx, Look, startLimit, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Exited():
			return false, errors.New("it ended")
		default:
		}
		_, err := b.get(ctx, "http://"+free[0]+"/readyz")
		return err == nil, nil
	})
	if err != nil {
		log, _ := os.ReadFile(p.LogPath())
		require.NoError(b, err, "wait until %s is ready\n%s", name, log)
	}
	p.Ready = time.Since(began)
	return p
}

func (b *Bed) freeAddresses(count int) []string {
	free, err := harness.FreeAddresses(count)
	require.NoError(b, err)
	return free
}

// Stop ends the process politely.
func (p *Program) Stop() { require.NoError(p.bed, p.Process.Stop()) }

// Heap returns what the process needs of its heap. It is the bytes that are left after a garbage collection, which this call starts.
func (p *Program) Heap(ctx context.Context) int64 {
	_, err := p.bed.get(ctx, "http://"+p.pprof+"/debug/pprof/heap?gc=1")
	require.NoError(p.bed, err)
	return int64(p.Series(ctx).Sum("go_memstats_heap_alloc_bytes"))
}

// Usage returns what the process uses of the machine.
func (p *Program) Usage() measure.Usage { return p.bed.Usage(p.Pid()) }

// CPU returns the CPU time that the process has taken so far.
func (p *Program) CPU() time.Duration { return p.Usage().CPU }

// Series returns the metrics of the process.
func (p *Program) Series(ctx context.Context) measure.Series {
	series, err := measure.Scrape(ctx, p.bed.web, "http://"+p.metrics+"/metrics")
	require.NoError(p.bed, err)
	return series
}
