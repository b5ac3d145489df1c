package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// atOnce is how many things are looked at at once.
const atOnce = 8

// examination reads an installation.
type examination struct {
	*cluster
	discovery discovery.DiscoveryInterfaceWithContext
	probes    kubernetes.Interface // for dry runs
	shown     *servedCertificates  // by answers to them
	options   *doctorOptions
	seen      doctor.Seen
	behind    time.Duration // this machine's clock, behind the API server's
}

// look is something to read, and the checks that need it; without any it is always read.
type look struct {
	read   func(context.Context)
	checks []string
}

// examine reads everything that checks need. The error is for an API server that cannot be reached, and for who has enough.
func (c *cluster) examine(ctx context.Context, o *doctorOptions) (doctor.Seen, error) {
	objects, err := doctor.Shipped(c.namespace)
	if err != nil {
		return doctor.Seen{}, err
	}
	e := &examination{
		cluster: c, discovery: discovery.ToDiscoveryInterfaceWithContext(c.client.Discovery()), shown: &servedCertificates{},
		options: o, seen: doctor.Seen{Namespace: c.namespace, Objects: objects},
	}
	config := rest.CopyConfig(c.config)
	config.WarningHandler = e.shown
	if e.probes, err = kubernetes.NewForConfig(config); err != nil {
		return doctor.Seen{}, err
	}
	if err := e.lookAtAPIServer(ctx); err != nil {
		return doctor.Seen{}, err
	}
	for _, looks := range []func() []look{e.firstLooks, e.profileLooks, e.laterLooks, e.lastLooks} { // each depends on what those before it have read
		var group errgroup.Group
		group.SetLimit(atOnce)
		for _, look := range looks() {
			if len(look.checks) == 0 || !sets.New(o.skip...).HasAll(look.checks...) {
				group.Go(func() error { look.read(ctx); return nil })
			}
		}
		_ = group.Wait() // what cannot be read is part of what is seen
		if ctx.Err() != nil {
			return doctor.Seen{}, ctx.Err()
		}
	}
	e.seen.Now = e.serverTime()
	return e.seen, nil
}

// serverTime returns what the API server's clock shows now.
func (e *examination) serverTime() time.Time { return e.now().Add(e.behind) }

// to returns a right in the release namespace. For a resource without a namespace it is a right in the whole cluster.
func (e *examination) to(verb, group, resource string) access {
	return access{verb: verb, group: group, resource: resource, namespace: e.namespace}
}

func (e *examination) toAll(verb, group, resource string) access {
	return access{verb: verb, group: group, resource: resource}
}

// reading makes an examination of an API call. The result is the value, that there is no such object, or why neither is known.
func reading[T any](e *examination, into *doctor.Read[T], a access, call func(context.Context) (T, error)) func(context.Context) {
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, e.options.timeout)
		defer cancel()
		value, err := call(ctx)
		switch {
		case err == nil:
			*into = doctor.Found(value)
		case store.SaysGone(err):
			*into = doctor.Absent[T]()
		default:
			*into = doctor.NotKnown[T](e.unknown(a, err))
		}
	}
}

// getter is a typed client that reads one object.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// getting is [reading] of one object.
func getting[T any](e *examination, into *doctor.Read[T], a access, client getter[T], name string) func(context.Context) {
	return reading(e, into, a, func(ctx context.Context) (T, error) { return client.Get(ctx, name, metav1.GetOptions{}) })
}

// listing is [reading] of all objects that the selectors select.
func listing[T any, P interface {
	*T
	runtime.Object
}, L runtime.Object](e *examination, into *doctor.Read[[]T], a access, client lister[L], selectors metav1.ListOptions) func(context.Context) {
	return reading(e, into, a, func(ctx context.Context) (all []T, err error) {
		for object, err := range every[P](ctx, e.cluster, a, client, selectors) {
			if err != nil {
				return nil, err
			}
			all = append(all, *object)
		}
		return all, nil
	})
}

// unknown reports why something could not be read. Some looks have their own error, which has all that is to be said.
func (e *examination) unknown(a access, err error) doctor.Unknown {
	var denied deniedError
	var refused refusedError
	var unreachable unreachableError
	if !errors.As(err, &refused) && !errors.As(err, &denied) && !errors.As(err, &unreachable) {
		err = e.failed(a, err)
	}
	why := func(remedy string) doctor.Unknown {
		return doctor.Unknown{Why: err.Error(), Remedy: doctor.Remedy{Text: remedy}}
	}
	switch {
	case errors.As(err, &denied):
		return lacking(denied.missing[0], denied.user, e.namespace)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("there was no answer within %s", e.options.timeout)
		return why("Try again, with a longer --timeout.")
	case errors.As(err, &refused):
		return why("Exempt Nodes named " + webhook.ProbeNode + "* from the rule, or --skip the check. See admission-rules, too.")
	default:
		return why("Try again.")
	}
}

// lacking reports that the caller lacks a right, and how to get it.
func lacking(a access, user, release string) doctor.Unknown {
	return doctor.Unknown{Why: a.denied(), Remedy: grantTo(user, release, a)}
}
