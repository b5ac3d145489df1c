package certs

import (
	"cmp"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// Names of objects that the manifests install.
const (
	serviceName        = "nodekeep-webhook"
	secretName         = "nodekeep-webhook-tls" // it must exist and may be empty
	configurationsName = "nodekeep"             // of the Mutating- and the ValidatingWebhookConfiguration
)

// Options are the settings of a [SelfSigned]. The zero value of each field stands for its default.
type Options struct {
	Namespace string // of the Service and the Secret; default "nodekeep-system"

	// ExtraNames are DNS names and IP addresses that the certificate covers in addition to those of the Service. They should be the same
	// in all replicas: two that want different names would take turns issuing.
	ExtraNames []string

	CALife   time.Duration // default 2 years; replaced when two thirds are over
	LeafLife time.Duration // default 90 days; replaced when two thirds are over, and never longer than the CA's

	// Grace is how long all webhook configurations hold a new CA before it signs anything, default 10 minutes. In that time every API
	// server notices the new CA. It should be far less than a third of CALife: a CA that expires is replaced without waiting.
	Grace time.Duration

	Interval time.Duration // between two looks at the API server; default 1 minute
	Clock    clock.Clock   // default the system's
	Logger   *slog.Logger  // default slog.Default
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, "nodekeep-system")
	o.CALife = cmp.Or(max(o.CALife, 0), 2*365*24*time.Hour)
	o.LeafLife = cmp.Or(max(o.LeafLife, 0), 90*24*time.Hour)
	o.Grace = cmp.Or(max(o.Grace, 0), 10*time.Minute)
	o.Interval = cmp.Or(max(o.Interval, 0), time.Minute)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}
