package verify

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// API asks the API server, over the ClusterIP of the Service kubernetes, who the worker is.
type API struct{}

func (*API) kind() Kind {
	return Kind{"api", "the API server answers over its Service and accepts the worker's ServiceAccount token", "the account has no rights"}
}

func (*API) compile(*compiler, *field.Path) {}

func (*API) needs() Needs { return Needs{Token: true} }

func (a *API) answered() answer {
	return byWorker(func(worker Asker) error { return worker.API(a) })
}
