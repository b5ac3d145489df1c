package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/policy"
)

// commonOptions are the flags of all processes.
type commonOptions struct {
	gateKey       string
	namespace     string
	kubeconfig    string
	metricsAddr   string
	metricsSecure bool
	probeAddr     string
	pprofAddr     string
	logFormat     string
	logLevel      string
}

func (o *commonOptions) common() *commonOptions { return o }

func (o *commonOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.gateKey, "gate-key", string(policy.DefaultGate), "key of the taint behind which Nodes wait for what is still missing")
	flags.StringVar(&o.namespace, "namespace", "nodekeep-system", "namespace that nodekeep is installed in: of the records, and of ConfigMap nodekeep-accepted")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file, outside of a cluster; without one, the in-cluster configuration")
	flags.StringVar(&o.metricsAddr, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", false, "serve /metrics over TLS, to callers with a token that may get it; needs the ClusterRole system:auth-delegator")
	flags.StringVar(&o.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, also "+unixSocket+"PATH for a socket; 0 for none")
	flags.StringVar(&o.pprofAddr, "pprof-bind-address", "0", "address of /debug/pprof, which shows what is in memory and must not be exposed: bind it to 127.0.0.1; 0 for none")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
}

func (o *commonOptions) mistakes() (found []error) {
	for _, problem := range validation.IsDNS1123Label(o.namespace) {
		found = append(found, fmt.Errorf("--namespace %q: %s", o.namespace, problem))
	}
	for _, problem := range validation.IsQualifiedName(o.gateKey) {
		found = append(found, fmt.Errorf("--gate-key %q: %s", o.gateKey, problem))
	}
	if o.metricsAddr != "0" && !bindable(o.metricsAddr) {
		found = append(found, fmt.Errorf("--metrics-bind-address %q: must be :PORT or IP:PORT, such as :8080, or 0 for none", o.metricsAddr))
	}
	if o.pprofAddr != "0" && !bindable(o.pprofAddr) {
		found = append(found, fmt.Errorf("--pprof-bind-address %q: must be IP:PORT or :PORT, such as 127.0.0.1:6060, or 0 for none", o.pprofAddr))
	}
	path, isSocket := strings.CutPrefix(o.probeAddr, unixSocket)
	if isSocket && !filepath.IsAbs(path) || !isSocket && o.probeAddr != "0" && !bindable(o.probeAddr) {
		found = append(found, fmt.Errorf("--health-probe-bind-address %q: must be :PORT or IP:PORT, such as :8081, %s/PATH for a socket, or 0 for none", o.probeAddr, unixSocket))
	}
	if o.logFormat != "text" && o.logFormat != "json" {
		found = append(found, fmt.Errorf("--log-format %q: must be text or json", o.logFormat))
	}
	if new(slog.Level).UnmarshalText([]byte(o.logLevel)) != nil {
		found = append(found, fmt.Errorf("--log-level %q: must be debug, info, warn or error", o.logLevel))
	}
	return found
}

// bindable reports whether a server can listen on the address: a port number, and an IP address of this machine or nothing before it.
func bindable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, badPort := strconv.ParseUint(port, 10, 16)
	_, badHost := netip.ParseAddr(host)
	return badPort == nil && (host == "" || badHost == nil)
}

// webhookOptions are the flags of nodekeep webhook.
type webhookOptions struct {
	commonOptions
	address    string
	certDir    string
	given      func(flag string) bool // also an empty value
	certNames  []string
	clientCA   string
	clientName []string
	drain      time.Duration
}

func (o *webhookOptions) addTo(flags *pflag.FlagSet) {
	o.commonOptions.addTo(flags)
	o.given = flags.Changed
	flags.StringVar(&o.address, "bind-address", ":9443", "address for webhook calls; port 0 for any free one")
	flags.StringVar(&o.certDir, "cert-dir", "", "directory with tls.crt and tls.key, reloaded when they change; without one, the webhook manages a CA and a certificate in Secret nodekeep-webhook-tls, and the caBundle of the webhook configurations")
	flags.StringSliceVar(&o.certNames, "cert-names", nil, "further DNS names and IP addresses for the certificate that the webhook manages, where the API server does not call it by its Service")
	flags.StringVar(&o.clientCA, "client-ca-file", "", "PEM file of the authorities whose client certificates may call the webhook, reloaded when it changes; without one, everybody who reaches the port may")
	flags.StringSliceVar(&o.clientName, "client-name", nil, "common names that such a client certificate may have; without one, any")
	flags.DurationVar(&o.drain, "drain", 10*time.Second, "after SIGTERM, keep serving for this long while /readyz fails")
}

func (o *webhookOptions) mistakes() []error {
	found := o.commonOptions.mistakes()
	if !bindable(o.address) {
		found = append(found, fmt.Errorf("--bind-address %q: must be :PORT or IP:PORT, such as :9443", o.address))
	}
	if o.certDir == "" && o.given("cert-dir") {
		found = append(found, errors.New("--cert-dir is empty: it must be the directory with tls.crt and tls.key; leave it out for a certificate that the webhook manages"))
	}
	if len(o.certNames) > 0 && o.certDir != "" {
		found = append(found, errors.New("--cert-names needs a certificate that the webhook manages: leave out --cert-dir"))
	}
	for _, name := range o.certNames {
		if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(name)) > 0 {
			found = append(found, fmt.Errorf("--cert-names %q: must be DNS names or IP addresses", name))
		}
	}
	if len(o.clientName) > 0 && o.clientCA == "" {
		found = append(found, errors.New("--client-name needs --client-ca-file: without it, no client certificate is asked for"))
	}
	if o.drain < 0 {
		found = append(found, fmt.Errorf("--drain %s: must not be negative", o.drain))
	}
	return found
}

// shortestInterval keeps a mistyped interval from occupying a process with nothing else.
const shortestInterval = time.Second

func interval(flag string, value time.Duration) []error {
	if value == 0 || value >= shortestInterval {
		return nil
	}
	return []error{fmt.Errorf("%s %s: must be at least %s, or 0 for never", flag, value, shortestInterval)}
}

func positive(flag string, number int) []error {
	if number >= 1 {
		return nil
	}
	return []error{fmt.Errorf("%s %d: must be at least 1", flag, number)}
}

// captureOptions are the flags of nodekeep capture.
type captureOptions struct {
	commonOptions
	leaderElect   bool
	workers       int
	patches       int // a second, for labels of rules alone
	inventoryDir  string
	resync        time.Duration
	sweepEvery    time.Duration
	sweepFraction float64
}

func (o *captureOptions) addTo(flags *pflag.FlagSet) {
	o.commonOptions.addTo(flags)
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "act only while leading; needed with more than one replica")
	flags.IntVar(&o.workers, "workers", 64, "Nodes worked on at once; fewer while the API server is overloaded")
	flags.StringVar(&o.inventoryDir, "inventory-dir", inventory.Mounts, "outside of a Pod: the folder that stands for "+inventory.Mounts)
	flags.IntVar(&o.patches, "label-patches-per-second", pace.DefaultLabelPatchesPerSecond, "limit for updates that only set labels of rules, in Nodes per second")
	flags.DurationVar(&o.resync, "resync", 5*time.Minute, "how often every Node is looked at again, as a safety net; 0 for never")
	flags.DurationVar(&o.sweepEvery, "retention-sweep", 10*time.Minute, "how often to remove records that the policy's retention no longer keeps; 0 for never")
	flags.Float64Var(&o.sweepFraction, "retention-fraction", gc.DefaultSweepFraction, "share of all records that one sweep may remove, but at least one record; 0: remove none, and only log and count")
}

func (o *captureOptions) mistakes() []error {
	found := o.commonOptions.mistakes()
	found = append(found, positive("--workers", o.workers)...)
	found = append(found, positive("--label-patches-per-second", o.patches)...)
	found = append(found, interval("--resync", o.resync)...)
	found = append(found, interval("--retention-sweep", o.sweepEvery)...)
	if !(o.sweepFraction >= 0 && o.sweepFraction <= 1) { // NaN is neither
		found = append(found, fmt.Errorf("--retention-fraction %g: must be between 0 and 1", o.sweepFraction))
	}
	return found
}
