package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// Look is the interval of polls. A measured start or failover can be wrong by this time.
const Look = 5 * time.Millisecond

// Program is one of nodekeep's processes.
type Program struct {
	*harness.Process
	// Ready is how long it took from the start of the process until it was ready.
	Ready time.Duration

	bed     *Bed
	probes  string // addresses
	metrics string
	pprof   string
	env     []string // in addition to what this program has
	reviews string   // webhook only
}

// StartWebhook starts the webhook and waits until it is ready. The API server does not call it before Use or Install.
func (b *Bed) StartWebhook(ctx context.Context) (*Program, error) {
	return b.StartWebhookIn(ctx, harness.Namespace)
}

// StartWebhookIn is StartWebhook with the records of a namespace. Only that of the manifests is one that the webhook's
// ServiceAccount may read; with others it runs as an admin.
func (b *Bed) StartWebhookIn(ctx context.Context, namespace string) (*Program, error) {
	free, err := harness.FreeAddresses(4)
	if err != nil {
		return nil, err
	}
	p := &Program{bed: b, probes: free[0], metrics: free[1], pprof: free[2], reviews: free[3]}
	_, port, err := net.SplitHostPort(p.reviews)
	if err != nil {
		return nil, fmt.Errorf("choose port of webhook: %w", err)
	}
	b.webhook = p
	name, kubeconfig := webhookProcess, b.kubeconfig(webhookProcess)
	if namespace != harness.Namespace {
		name, kubeconfig = webhookProcess+"-"+namespace, b.nodekeep.AdminKubeconfig()
	} else if _, err := b.account(ctx, webhookProcess); err != nil {
		return nil, err
	}
	return p, p.start(ctx, name, "webhook", "--cert-dir", b.cluster.Dir(), "--host", "127.0.0.1", "--port", port, "--drain", "0s",
		"--kubeconfig", kubeconfig, "--namespace", namespace)
}

// StartCapture starts a capture and waits until it is ready: leading, or as a standby. The suffix distinguishes them.
func (b *Bed) StartCapture(ctx context.Context, suffix string, args ...string) (*Program, error) {
	free, err := harness.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	if _, err := b.account(ctx, captureProcess); err != nil {
		return nil, err
	}
	p := &Program{bed: b, probes: free[0], metrics: free[1], pprof: free[2]}
	return p, p.start(ctx, captureProcess+suffix, append([]string{
		"capture", "--leader-elect", "--kubeconfig", b.kubeconfig(captureProcess), "--namespace", harness.Namespace,
	}, args...)...)
}

// Unverified is the taint of a Node that is to be verified, by the default of a profile.
var Unverified = corev1.Taint{Key: "nodekeep.dev/unverified", Effect: corev1.TaintEffectNoSchedule}

// StartVerify starts the controller of verification with a policy, and waits until it is ready. It runs as an admin: its ServiceAccount is not
// installed.
func (b *Bed) StartVerify(ctx context.Context, name, policy string, env ...string) (*Program, error) {
	free, err := harness.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	if err := b.nodekeep.WritePolicy(policy); err != nil {
		return nil, err
	}
	p := &Program{bed: b, probes: free[0], metrics: free[1], pprof: free[2]}
	p.env = env
	return p, p.start(ctx, name, "verify", "--leader-elect=false", "--image", "nodekeep:bench", "--kubeconfig", b.nodekeep.AdminKubeconfig(), "--namespace", harness.Namespace)
}

func (p *Program) start(ctx context.Context, name string, args ...string) (err error) {
	b := p.bed
	args = append(args, "--policy", b.nodekeep.PolicyFile,
		"--health-probe-bind-address", p.probes, "--metrics-bind-address", p.metrics, "--pprof-bind-address", p.pprof)
	began := time.Now()
	if p.Process, err = b.cluster.Go(name, b.nodekeep.Binary(), args, p.env...); err != nil {
		return err
	}
	err = Await(ctx, startLimit, Look, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Exited():
			return false, errors.New("it ended")
		default:
			return p.isReady(ctx), nil
		}
	})
	if err != nil {
		log, _ := os.ReadFile(p.LogPath())
		return fmt.Errorf("wait until %s is ready: %w\n%s", name, err, log)
	}
	p.Ready = time.Since(began)
	return nil
}

// Heap is what the process needs of its heap. It is the bytes that are left after a garbage collection, which this call starts.
func (p *Program) Heap(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.pprof+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return 0, fmt.Errorf("collect garbage of %s: %w", p.Name(), err)
	}
	response, err := p.bed.web.Do(request)
	if err != nil {
		return 0, fmt.Errorf("collect garbage of %s: %w", p.Name(), err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("collect garbage of %s: %s", p.Name(), response.Status)
	}
	series, err := p.Series(ctx)
	return int64(series.Sum("go_memstats_heap_alloc_bytes")), err
}

func (p *Program) isReady(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.probes+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := p.bed.web.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Usage is what the process uses of the machine.
func (p *Program) Usage() (measure.Usage, error) { return measure.UsageOf(p.Pid()) }

// Series are the metrics of the process.
func (p *Program) Series(ctx context.Context) (measure.Series, error) {
	return measure.Scrape(ctx, p.bed.web, "http://"+p.metrics+"/metrics")
}

// Await asks every so often until done says yes, for so long at most.
func Await(ctx context.Context, limit, every time.Duration, done func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		if yes, err := done(ctx); yes || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}
