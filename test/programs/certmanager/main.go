// Command certmanager runs cert-manager's own controllers and its CA injector in one process, on the cluster that KUBECONFIG names. It runs
// the controllers that a self-signed CA needs. cert-manager's programs are modules that cannot be installed by `go install`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"   // approves what is asked for
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"         // signs by a CA
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned" // signs by itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"           // writes the Secret
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"        // makes keys
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"         // says when it is ready
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"    // asks for a certificate
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"   // forgets old requests
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"           // renews
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"                        // looks after Issuers
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"                                 // the kinds of Issuers
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util/feature"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("KUBECONFIG"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	ctrl.SetLogger(klog.Background())
	failed := make(chan error, 2)
	go func() { failed <- issue(ctx, kubeconfig) }()
	go func() { failed <- inject(ctx, kubeconfig) }()
	if err := <-failed; err != nil {
		return err
	}
	return <-failed
}

// issue runs the controllers of Issuers, Certificates and CertificateRequests.
func issue(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:       kubeconfig,
		KubernetesAPIQPS: 100, KubernetesAPIBurst: 100,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "default"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second, CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return fmt.Errorf("make controllers: %w", err)
	}
	running := make(chan error)
	count := 0
	for name, construct := range controller.Known() {
		started, err := construct(factory)
		if err != nil {
			return fmt.Errorf("make controller %s: %w", name, err)
		}
		count++
		go func() { running <- started.Run(5, ctx) }()
	}
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("make informers: %w", err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	for range count {
		if err := <-running; err != nil {
			return fmt.Errorf("run controller: %w", err)
		}
	}
	return nil
}

// inject runs the CA injector for webhook configurations.
func inject(ctx context.Context, kubeconfig string) error {
	// As before cert-manager 1.19, which is harder for who is called: a CA that was replaced is trusted no more.
	if err := feature.DefaultMutableFeatureGate.Set("CAInjectorMerging=false"); err != nil {
		return fmt.Errorf("set features of CA injector: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "cert-manager-cainjector/test"
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := cmapi.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("make CA injector: %w", err)
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor:        map[string]bool{cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true},
	})
	if err != nil {
		return fmt.Errorf("set CA injector up: %w", err)
	}
	return manager.Start(ctx)
}
