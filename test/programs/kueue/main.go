// Command kueue runs those controllers of Kueue that admit workloads to queues and place them by topology. Its webhooks and its integrations of jobs
// are not in it: tests make Workloads themselves, with every field. KUBECONFIG names the cluster. A module of its own: nothing of it enters the
// product's go.mod.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/cache/queue"
	cache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kueue.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var settings v1beta2.Configuration
	scheme.Default(&settings)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := indexer.Setup(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	if err := tasindexer.SetupIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	requeuer, preemptions := queue.NewRequeuer(), expectations.New()
	if err := manager.Add(requeuer); err != nil {
		return err
	}
	cached := cache.New(manager.GetClient())
	queues := queue.NewManager(manager.GetClient(), cached, requeuer, queue.WithPreemptionExpectations(preemptions))
	if name, err := core.SetupControllers(manager, queues, cached, &settings, nil, preemptions, nil); err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	if name, err := tas.SetupControllers(manager, queues, cached, &settings, nil); err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	go queues.CleanUpOnContext(ctx)
	go cached.CleanUpOnContext(ctx)
	events := manager.GetEventRecorderFor(constants.AdmissionName) //nolint:staticcheck // deprecated; Kueue's scheduler takes no other
	if err := manager.Add(scheduler.New(queues, cached, manager.GetClient(), events, scheduler.WithPreemptionExpectations(preemptions))); err != nil {
		return err
	}
	return manager.Start(ctx)
}
