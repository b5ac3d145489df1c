package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync/atomic"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// podName is the environment variable with the name of the Pod.
const podName = "POD_NAME"

// process is what every process is made of.
type process struct {
	options  *commonOptions
	policy   *nodepolicy.Source
	config   *rest.Config
	client   kubernetes.Interface
	objects  dynamic.Interface // for the NodePolicy, NodeClaims and Machines
	records  *store.ConfigMaps // nil: it reads none
	registry *prometheus.Registry
	logger   *slog.Logger
	yields   atomic.Bool // another process of this host leads, and has the port of /metrics
}

// start makes the parts of a process that reads records, as startWithoutRecords does.
func start(o *commonOptions, mistakes []error) (*process, error) {
	p, err := startWithoutRecords(o, mistakes)
	if err != nil {
		return nil, err
	}
	if p.records, err = store.NewConfigMaps(p.client, o.namespace, p.logger); err != nil {
		return nil, err
	}
	p.policy.Prepare = func(loaded policy.Policy) error {
		if loaded.Follows() {
			return p.records.IndexMachines()
		}
		return nil
	}
	p.registry.MustRegister(recordGauges(p.records)...)
	return p, nil
}

// startWithoutRecords makes the parts of a process after it has checked all input. It returns all errors at once.
func startWithoutRecords(o *commonOptions, mistakes []error) (*process, error) {
	config, err := restConfig(o)
	if err != nil {
		mistakes = append(mistakes, err)
	}
	if len(mistakes) > 0 {
		return nil, usageError{mistakes}
	}
	logger := newLogger(o)
	limitMemory(logger, memlimit.FromCgroup)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the NodePolicy: %w", err)
	}
	source := nodepolicy.NewSource(nodepolicy.Options{
		Objects: objects, Client: client, Namespace: o.namespace, Gate: policy.Gate(o.gateKey), Replica: os.Getenv(podName), Logger: logger,
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(policyGauges(source)...)
	return &process{options: o, policy: source, config: config, client: client, objects: objects, registry: registry, logger: logger}, nil
}

func policyGauges(source *nodepolicy.Source) []prometheus.Collector {
	return []prometheus.Collector{
		gauge("nodekeep_policy_good",
			"1 while the policy in force is what the NodePolicy says. 0 while that cannot be used, or was deleted.",
			countWhile(func() bool { return source.Err() == nil })),
		policyEntries("migrations", func() int { return len(source.Policy().Migrations()) }),
		policyEntries("profiles", func() int { return len(source.Policy().Verify().All()) }),
	}
}

func policyEntries(kind string, read func() int) prometheus.Collector {
	return labelled("nodekeep_policy_entries", "Migrations of labels, and profiles of verification, in the policy in force.", "kind", kind, func() float64 { return float64(read()) })
}

// suspends has the policy in force close no Node during an emergency.
func (p *process) suspends() {
	p.policy.Suspends = true
	p.registry.MustRegister(gauge("nodekeep_policy_emergency",
		"1 while an emergency is declared: no Node is kept behind the gate or verified until nodekeep emergency --end.",
		countWhile(p.policy.Emergency)))
}

// limitMemory has the garbage collector keep to 90 % of the memory limit of the container, unless GOMEMLIMIT says otherwise. Without it the heap may
// double before it is collected, and the kernel ends the process.
func limitMemory(logger *slog.Logger, container memlimit.Provider) {
	if limit, err := memlimit.Set(memlimit.WithProvider(container)); err != nil {
		logger.Info("the memory limit of the container is not known: set GOMEMLIMIT to nine tenths of it", "error", err)
	} else if limit != math.MaxInt64 {
		logger.Info("memory is limited", "bytes", limit)
	}
}

func restConfig(o *commonOptions) (config *rest.Config, err error) {
	if o.kubeconfig == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("--kubeconfig is needed outside a cluster: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	config.QPS = -1 // no limit: the API server shares itself out fairly
	// The processes read Nodes and records. Protobuf costs them and the API server a fraction of what JSON costs.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "nodekeep/" + thisBuild().version
	return config, nil
}

func newLogger(o *commonOptions) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel)) // checked with the flags
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, options)
	if o.logFormat == "json" {
		handler = slog.NewJSONHandler(os.Stderr, options)
	}
	logger := slog.New(handler)
	klog.SetSlogLogger(logger)                                // client-go logs through klog,
	ctrllog.SetLogger(logr.FromSlogHandler(logger.Handler())) // controller-runtime through logr
	return logger
}

func recordGauges(records *store.ConfigMaps) []prometheus.Collector {
	count := func(state string, read func() float64) prometheus.Collector {
		return labelled("nodekeep_store_records", "Records in memory, by whether they can be read.", "state", state, read)
	}
	return []prometheus.Collector{
		count("readable", func() float64 { return float64(records.Totals().Readable) }),
		count("unreadable", func() float64 { return float64(records.Totals().Unreadable) }),
		gauge("nodekeep_store_records_bytes", "Size of all records, as they are stored.",
			func() float64 { return float64(records.Totals().Bytes) }),
		gauge("nodekeep_store_largest_record_bytes", "Size of the largest record, as it is stored.",
			func() float64 { return float64(records.Totals().Largest) }),
	}
}

func gauge(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

// labelled returns one gauge of several that a label tells apart.
func labelled(name, help, label, value string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, read)
}

// countWhile is 1 while something holds, and 0 otherwise.
func countWhile(holds func() bool) func() float64 {
	return func() float64 {
		if holds() {
			return 1
		}
		return 0
	}
}
