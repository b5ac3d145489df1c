package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"nodekeep.dev/nodekeep/certs"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// Where the API server sends what happens to Nodes, and to the NodePolicy.
const (
	restorePath   = "/restore"           // CREATE, mutating
	protectedPath = "/restore-protected" // CREATE, mutating, for labels.protected: inline
	deletionPath  = "/deletion"          // DELETE, validating
	policyPath    = "/policy"            // CREATE and UPDATE of NodePolicies, validating
)

// certificate is where the serving certificate comes from.
type certificate interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Run(ctx context.Context)
	Loaded() error
	NotAfter() time.Time
	NotBefore() time.Time
}

func runWebhook(ctx context.Context, o *webhookOptions, p *process) error {
	holdGarbageDown()
	serving := servingCertificate(o, p)
	metrics := webhook.NewMetrics(p.registry)
	rules := store.NewRules(p.client, o.namespace, policy.NoRules, p.logger)
	current := func() policy.Policy {
		now := p.policy.Policy()
		return now.WithRulesHeld(rules.Hold(now.RulesHash()))
	}
	handler := webhook.NewHandler(p.records, current, metrics, p.logger)
	proof, err := webhook.NewInlineProbe(p.config, p.policy.Policy, p.logger)
	if err != nil {
		return err
	}
	protected := webhook.NewProtectedHandler(p.records, current, proof.Works, metrics, p.logger)
	guards := guard.New(p.client, p.logger)
	cluster := store.NewCluster(p.client, p.logger)
	p.registry.MustRegister(webhookGauges(serving, current, proof, guards)...)
	deletions := webhook.NewDeletions(webhook.DeletionOptions{
		Nodes: p.client.CoreV1().Nodes(), Records: p.records, Cluster: cluster.UID, Policy: p.policy.Policy, Guard: guards,
		Metrics: webhook.NewDeletionMetrics(p.registry), Logger: p.logger, Now: time.Now,
	})
	var clients *webhook.Clients // nil: everybody may call
	authorized := check{name: "client authorities"}
	var authorities *certs.Authorities
	if o.clientCA != "" {
		authorities = certs.NewAuthorities(o.clientCA, p.logger)
		clients = &webhook.Clients{Authorities: authorities.Pool, Names: o.clientName}
		authorized.ok = authorities.Loaded // without authorities nobody would be served
	}
	ready := func() bool { return p.policy.Known() && p.records.Synced() }
	reviews := webhook.Reviews{Ready: ready, Limits: webhook.NewLimits(), Metrics: metrics, Logger: p.logger}
	mux := http.NewServeMux()
	mux.Handle(restorePath, reviews.Handler(webhook.RestoreReview, webhook.ShowsCertificate(handler, serving.GetCertificate)))
	mux.Handle(protectedPath, reviews.Handler(webhook.ProtectedReview, protected))
	mux.Handle(deletionPath, reviews.Handler(webhook.DeletionReview, deletions))
	reviews.Ready = func() bool { return true } // a policy is judged by itself
	mux.Handle(policyPath, reviews.Handler(webhook.PolicyReview, webhook.NewPolicyHandler(policy.Gate(o.gateKey))))
	server, err := webhook.NewServer(o.address, mux, serving.GetCertificate, clients, o.drain, p.logger)
	if err != nil {
		return err
	}
	p.logger.Info("webhook listens", "address", server.Address())

	// What requests need outlives the server: it stops when the last one is answered.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { p.records.Run(background); return nil })
	group.Go(func() error { serving.Run(background); return nil })
	if authorities != nil {
		group.Go(func() error { authorities.Run(background); return nil })
	}
	p.withPolicy(background, group, func() error { return proof.Run(background) })
	group.Go(func() error { guards.Run(background); return nil })
	group.Go(func() error { cluster.Run(background); return nil })
	group.Go(func() error { rules.Run(background); return nil })
	p.serve(background, group, func() {}, func(error) {},
		synced("records", p.records.Synced),
		check{name: "certificate", ok: serving.Loaded},
		authorized,
		check{name: "protected labels", note: func() string { return howProtected(p, proof) }},
		check{name: "serving", ok: func() error {
			if server.Draining() {
				return errors.New("told to stop")
			}
			return nil
		}},
	)
	group.Go(func() error {
		defer stop()
		return server.Serve(failed)
	})
	return group.Wait()
}

func servingCertificate(o *webhookOptions, p *process) certificate {
	if o.certDir == "" {
		return certs.NewSelfSigned(p.client, certs.Options{Namespace: o.namespace, ExtraNames: o.certNames, Logger: p.logger})
	}
	return certs.NewDir(o.certDir, p.logger)
}

// webhookGauges show what the webhook knows. How much of the certificate's life may be left depends on its length, so both ends are shown.
func webhookGauges(serving certificate, current func() policy.Policy, proof *webhook.InlineProbe, guards *guard.Guard) []prometheus.Collector {
	return []prometheus.Collector{
		certificateBound("not_before", serving.NotBefore),
		certificateBound("not_after", serving.NotAfter),
		gauge("nodekeep_webhook_rules_held", "1 while new rules for labels only add labels to Nodes that register; 0 while they are in force.",
			countWhile(func() bool { return current().RulesHeld() })),
		gauge("nodekeep_webhook_inline_proved", "1 while protected labels are restored inline; 0 while they are deferred or not restored.",
			countWhile(proof.Works)),
		gauge("nodekeep_guard_policies_in_force",
			"1 while policies in the API server keep kubelets from nodekeep's annotations; 0 while these are read with care.",
			countWhile(guards.InForce)),
	}
}

func certificateBound(bound string, read func() time.Time) prometheus.Collector {
	return labelled("nodekeep_webhook_certificate_timestamp_seconds", "From when until when the serving certificate is valid, in seconds since 1970; 0 while there is none.",
		"bound", bound, func() float64 { return timestamp(read()) })
}

// timestamp is seconds since 1970; 0 for no time at all.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// howProtected explains what becomes of protected labels, for operators who look at /readyz?verbose.
func howProtected(p *process, proof *webhook.InlineProbe) string {
	if !p.policy.Policy().RestoresInline() {
		return "as the policy says"
	}
	if err := proof.Err(); err != nil {
		return "deferred although the policy says inline: " + err.Error()
	}
	return "inline"
}
