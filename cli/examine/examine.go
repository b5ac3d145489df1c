package examine

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

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// maxParallel is how many things are looked at at once.
const maxParallel = 8

// examination reads an installation.
type examination struct {
	*cluster.Cluster
	discovery    discovery.DiscoveryInterfaceWithContext
	dryRunClient kubernetes.Interface // its warnings go to certificates
	certificates *servedCertificates  // of the webhook, which shows its certificate in warnings of its answers to dry runs
	options      Options
	seen         doctor.Installation
	clockLag     time.Duration // this machine's clock, behind the API server's
}

// Options are what the operator chooses.
type Options struct {
	GateAfter time.Duration // a Node that has been behind the gate for longer is noted
	Timeout   time.Duration // of any one read
	Skip      []string      // checks that are left out, and so what only they need
}

// look is something to read, and the checks that need it; without any it is always read.
type look struct {
	read   func(context.Context)
	checks []string
}

// Installation reads everything that checks need. It is an error if the API server cannot be reached, and if ctx ends.
func Installation(ctx context.Context, c *cluster.Cluster, options Options) (doctor.Installation, error) {
	objects, err := doctor.Shipped(c.Namespace)
	if err != nil {
		return doctor.Installation{}, err
	}
	e := &examination{
		Cluster: c, discovery: discovery.ToDiscoveryInterfaceWithContext(c.Client.Discovery()), certificates: &servedCertificates{},
		options: options, seen: doctor.Installation{Namespace: c.Namespace, ComparedObjects: objects},
	}
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = e.certificates
	if e.dryRunClient, err = kubernetes.NewForConfig(config); err != nil {
		return doctor.Installation{}, err
	}
	if err := e.lookAtAPIServer(ctx); err != nil {
		return doctor.Installation{}, err
	}
	for _, looks := range []func() []look{e.firstLooks, e.profileLooks, e.laterLooks, e.lastLooks} { // each depends on what those before it have read
		var group errgroup.Group
		group.SetLimit(maxParallel)
		for _, look := range looks() {
			if len(look.checks) == 0 || !sets.New(options.Skip...).HasAll(look.checks...) {
				group.Go(func() error { look.read(ctx); return nil })
			}
		}
		_ = group.Wait() // what cannot be read is part of what is seen
		if ctx.Err() != nil {
			return doctor.Installation{}, ctx.Err()
		}
	}
	e.seen.Now = e.serverTime()
	return e.seen, nil
}

// serverTime returns what the API server's clock shows now.
func (e *examination) serverTime() time.Time { return e.Now().Add(e.clockLag) }

// right returns a right in the namespace of nodekeep. For a resource without a namespace it is one in the whole cluster.
func (e *examination) right(verb, group, resource string) doctor.Right {
	return doctor.Right{Verb: verb, Group: group, Resource: resource, Namespace: e.Namespace}
}

// clusterRight returns a right in the whole cluster.
func clusterRight(verb, group, resource string) doctor.Right {
	return doctor.Right{Verb: verb, Group: group, Resource: resource}
}

// readInto returns an API call, which needs a right. The result is the value, that there is no such object, or why neither is known.
func readInto[T any](e *examination, dest *doctor.Reading[T], right doctor.Right, call func(context.Context) (T, error)) func(context.Context) {
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, e.options.Timeout)
		defer cancel()
		value, err := call(ctx)
		switch {
		case err == nil:
			*dest = doctor.Found(value)
		case store.IsGone(err):
			*dest = doctor.Absent[T]()
		default:
			*dest = doctor.NotKnown[T](e.unknown(right, err))
		}
	}
}

// getter is a typed client that reads one object.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// getInto is [readInto] of one object.
func getInto[T any](e *examination, dest *doctor.Reading[T], right doctor.Right, client getter[T], name string) func(context.Context) {
	return readInto(e, dest, right, func(ctx context.Context) (T, error) { return client.Get(ctx, name, metav1.GetOptions{}) })
}

// listInto is [readInto] of all objects that the selectors select.
func listInto[T any, P interface {
	*T
	runtime.Object
}, L runtime.Object](e *examination, dest *doctor.Reading[[]T], right doctor.Right, client cluster.Lister[L], selectors metav1.ListOptions) func(context.Context) {
	return readInto(e, dest, right, func(ctx context.Context) (all []T, err error) {
		for object, err := range cluster.List[P](ctx, e.Cluster, right, client, selectors) {
			if err != nil {
				return nil, err
			}
			all = append(all, *object)
		}
		return all, nil
	})
}

// unknown reports why something could not be read. Some looks have their own error, which has all that is to be said.
func (e *examination) unknown(right doctor.Right, err error) doctor.Unknown {
	var denied cluster.DeniedError
	var refused refusedError
	var unreachable cluster.UnreachableError
	if !errors.As(err, &refused) && !errors.As(err, &denied) && !errors.As(err, &unreachable) {
		err = e.ExplainError(right, err)
	}
	unknown := func(remedy string) doctor.Unknown {
		return doctor.Unknown{Reason: err.Error(), Remedy: doctor.Remedy{Text: remedy}}
	}
	switch {
	case errors.As(err, &denied):
		missing := denied.Missing[0]
		return doctor.Unknown{Reason: missing.Denied(), Remedy: doctor.GrantTo(denied.User, e.Namespace, missing)}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("there was no answer within %s", e.options.Timeout)
		return unknown("Try again, with a longer --timeout.")
	case errors.As(err, &refused):
		return unknown("Exempt Nodes named " + webhook.ProbeNode + "* from the rule, or --skip the check. See admission-rules, too.")
	default:
		return unknown("Try again.")
	}
}
