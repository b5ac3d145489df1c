package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodekeep.dev/nodekeep/cmd/ungate"
	"nodekeep.dev/nodekeep/policy"
)

// uninstallOptions are the flags of nodekeep uninstall.
type uninstallOptions struct {
	namespace  string
	gateKey    string
	kubeconfig string
	settle     time.Duration
	patience   time.Duration
	timeout    time.Duration
}

func (o *uninstallOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.namespace, "namespace", "nodekeep-system", "namespace of nodekeep")
	flags.StringVar(&o.gateKey, "gate-key", string(policy.DefaultGate), "key of the taint behind which Nodes wait")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without one, what kubectl would take, or the in-cluster configuration")
	flags.DurationVar(&o.settle, "settle", 10*time.Second, "how long no dry run must have been gated until every API server is believed to have noticed")
	flags.DurationVar(&o.patience, "patience", 30*time.Second, "how long capture is given to complete Nodes that are behind the gate, before they are freed as they are")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long all of it may take")
}

func (o *uninstallOptions) mistakes() (found []error) {
	for _, problem := range validation.IsDNS1123Label(o.namespace) {
		found = append(found, fmt.Errorf("--namespace %q: %s", o.namespace, problem))
	}
	for _, problem := range validation.IsQualifiedName(o.gateKey) {
		found = append(found, fmt.Errorf("--gate-key %q: %s", o.gateKey, problem))
	}
	if o.settle < 0 {
		found = append(found, fmt.Errorf("--settle %s: must not be negative", o.settle))
	}
	if o.patience < 0 {
		found = append(found, fmt.Errorf("--patience %s: must not be negative", o.patience))
	}
	if o.timeout <= 0 {
		found = append(found, fmt.Errorf("--timeout %s: must be positive", o.timeout))
	}
	return found
}

// config is that of kubectl: the file that is named, KUBECONFIG, the user's, or else the pod's ServiceAccount.
func (o *uninstallOptions) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS = -1 // the calls at once are few
	config.UserAgent = "nodekeep-uninstall/" + version
	return config, nil
}

func newUninstallCommand() *cobra.Command {
	o := &uninstallOptions{}
	command := &cobra.Command{
		Use:     "uninstall",
		GroupID: installation,
		Short:   "Stop gating and free every Node, before nodekeep is deleted",
		Long: "uninstall is what has to happen before nodekeep is deleted, or Nodes would be left behind a gate that nobody lifts.\n" +
			"It deletes what puts the gate on new Nodes, waits until no API server does so any more, gives capture time to complete\n" +
			"the Nodes that are behind it, and frees those that are left. Then it deletes the guard policies. `helm uninstall` runs\n" +
			"it by itself. It deletes neither the processes nor what is remembered.",
		Example: "  nodekeep uninstall\n  kubectl delete --ignore-not-found -f manifests/nodekeep.yaml",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			mistakes := o.mistakes()
			config, err := o.config()
			if err != nil {
				mistakes = append(mistakes, err)
			}
			if len(mistakes) > 0 {
				return usageError{mistakes}
			}
			return ran(runUninstall(command.Context(), o, config, command.OutOrStdout()))
		},
	}
	o.addTo(command.Flags())
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{[]error{err}} })
	return command
}

func runUninstall(ctx context.Context, o *uninstallOptions, config *rest.Config, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	kubelet, err := kubernetes.NewForConfig(ungate.AsProbe(config))
	if err != nil {
		return fmt.Errorf("make a client for dry runs: %w", err)
	}
	return (&ungate.Ungating{
		Client: client, Kubelet: kubelet, Namespace: o.namespace, Gate: policy.Gate(o.gateKey), Settle: o.settle, Patience: o.patience, Out: out,
	}).Run(ctx)
}
