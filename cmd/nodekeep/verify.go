package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/controller"
)

// verifyOptions are the flags of nodekeep verify.
type verifyOptions struct {
	commonOptions
	leaderElect     bool
	workers         int
	image           string
	pull            string
	checksNamespace string
	dnsService      string
	sweepEvery      time.Duration
}

func (o *verifyOptions) addTo(flags *pflag.FlagSet) {
	o.commonOptions.addTo(flags)
	flags.Lookup("namespace").Usage = "namespace of the Lease, and of what was accepted last"
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "act only while leading; needed with more than one replica")
	flags.IntVar(&o.workers, "workers", 16, "Nodes worked on at once")
	flags.StringVar(&o.image, "image", "", "image of worker Pods; use the image of this process")
	flags.StringVar(&o.pull, "image-pull-policy", string(corev1.PullIfNotPresent), "when kubelets pull that image: Always, IfNotPresent or Never")
	flags.StringVar(&o.checksNamespace, "checks-namespace", verify.Namespace, "namespace of worker Pods and of the reports of attempts that did not pass")
	flags.StringVar(&o.dnsService, "dns-service", "kube-system/kube-dns", "NAMESPACE/NAME of the cluster's DNS Service")
	flags.DurationVar(&o.sweepEvery, "retention-sweep", 10*time.Minute, "how often to remove reports that the policy's retention no longer keeps; 0 for never")
}

func (o *verifyOptions) mistakes() []error {
	found := o.commonOptions.mistakes()
	found = append(found, positive("--workers", o.workers)...)
	if o.image == "" {
		found = append(found, errors.New("--image is needed: the image of worker Pods, which is nodekeep's own"))
	}
	if !slices.Contains([]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, corev1.PullPolicy(o.pull)) {
		found = append(found, fmt.Errorf("--image-pull-policy %q: must be Always, IfNotPresent or Never", o.pull))
	}
	for _, problem := range validation.IsDNS1123Label(o.checksNamespace) {
		found = append(found, fmt.Errorf("--checks-namespace %q: %s", o.checksNamespace, problem))
	}
	namespace, name, _ := strings.Cut(o.dnsService, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1035Label(name)) > 0 {
		found = append(found, fmt.Errorf("--dns-service %q: must be NAMESPACE/NAME of a Service", o.dnsService))
	}
	return append(found, interval("--retention-sweep", o.sweepEvery)...)
}

func runVerify(ctx context.Context, o *verifyOptions, p *process) error {
	p.suspends()
	events, flush := newEvents(p.client, "nodekeep-verify")
	defer flush()
	c, err := controller.New(controller.Options{
		Client:  p.client,
		Objects: p.objects,
		Profiles: func() verify.Profiles {
			inForce, generation := p.policy.InForce()
			return inForce.Verify().WithGeneration(generation)
		},
		Retention: func() time.Duration { return p.policy.Policy().Retention() },
		Cluster:   verify.Cluster{Gate: o.gateKey, DNS: o.dnsService},
		Namespace: o.checksNamespace,
		Image:     o.image,
		Pull:      corev1.PullPolicy(o.pull),
		Events:    events,
		Metrics:   controller.NewMetrics(p.registry),
		Logger:    p.logger,
		Workers:   o.workers,
		Sweep:     o.sweepEvery,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	p.withPolicy(ctx, group, func() error { return c.Run(ctx) })
	p.withPolicy(ctx, group, func() error { return p.lead(ctx, o.leaderElect, controller.LeaseName, c.Lead) })
	onlyLogged := func(error) {} // capture reports a bad policy by an Event
	p.serve(ctx, group, c.EnqueueAll, onlyLogged, synced("nodes", c.NodesSynced), synced("pods", c.PodsSynced))
	return ended(group)
}
