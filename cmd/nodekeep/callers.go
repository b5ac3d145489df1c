package main

import (
	"context"

	"nodekeep.dev/nodekeep/certs"
	"nodekeep.dev/nodekeep/webhook"
)

// callers defines who may call the webhook: everybody, without --client-ca-file.
type callers struct {
	authorities *certs.Authorities // nil for everybody
	names       []string
}

func callersOf(o *webhookOptions, p *process) callers {
	if o.clientCA == "" {
		return callers{}
	}
	return callers{authorities: certs.NewAuthorities(o.clientCA, p.logger), names: o.clientName}
}

func (c callers) clients() *webhook.Clients {
	if c.authorities == nil {
		return nil
	}
	return &webhook.Clients{Authorities: c.authorities.Pool, Names: c.names}
}

func (c callers) run(ctx context.Context) {
	if c.authorities != nil {
		c.authorities.Run(ctx)
	}
}

// loaded is a condition of being ready: without authorities nobody would be served.
func (c callers) loaded() error {
	if c.authorities == nil {
		return nil
	}
	return c.authorities.Loaded()
}
