package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// process is what every process is made of.
type process struct {
	policy   *policyFile
	config   *rest.Config
	client   kubernetes.Interface
	records  *store.ConfigMaps // nil: it reads none
	registry *prometheus.Registry
	logger   *slog.Logger
}

// files is what could be made of the files that the flags name.
type files struct {
	policy *policyFile
	config *rest.Config
}

// readFiles reads the files that the flags name and adds what is wrong with them to the errors.
func readFiles(o *commonOptions, mistakes []error) (files, []error) {
	file, err := readPolicy(o.policyFile, policy.Gate(o.gateKey))
	if err != nil {
		mistakes = append(mistakes, err)
	}
	config, err := restConfig(o)
	if err != nil {
		mistakes = append(mistakes, err)
	}
	return files{policy: file, config: config}, mistakes
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
	p.policy.prepare = func(loaded policy.Policy) error {
		if loaded.Follows() {
			return p.records.IndexMachines()
		}
		return nil
	}
	if err := p.policy.prepare(p.policy.Policy()); err != nil {
		return nil, err
	}
	p.registry.MustRegister(recordGauges(p.records)...)
	return p, nil
}

// startWithoutRecords makes the parts of a process after it has checked all input. It returns all errors at once.
func startWithoutRecords(o *commonOptions, mistakes []error) (*process, error) {
	ready, mistakes := readFiles(o, mistakes)
	if len(mistakes) > 0 {
		return nil, usageError{mistakes}
	}
	logger := newLogger(o)
	client, err := kubernetes.NewForConfig(ready.config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), ready.policy.good, ready.policy.profiles)
	return &process{policy: ready.policy, config: ready.config, client: client, registry: registry, logger: logger}, nil
}

func restConfig(o *commonOptions) (config *rest.Config, err error) {
	if o.kubeconfig == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("--kubeconfig is needed outside a cluster: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	config.QPS, config.Burst = o.qps, o.burst
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
	gauge := func(name, help string, labels prometheus.Labels, read func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(read()) })
	}
	count := func(state string, read func() int) prometheus.Collector {
		return gauge("nodekeep_store_records", "Records in memory, by whether they can be read.", prometheus.Labels{"state": state}, read)
	}
	return []prometheus.Collector{
		count("readable", func() int { return records.Totals().Readable }),
		count("unreadable", func() int { return records.Totals().Unreadable }),
		gauge("nodekeep_store_records_bytes", "Size of all records, as they are stored.", nil, func() int { return records.Totals().Bytes }),
		gauge("nodekeep_store_largest_record_bytes", "Size of the largest record, as it is stored.", nil, func() int { return records.Totals().Largest }),
	}
}
