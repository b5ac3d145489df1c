package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/cli/doctor"
)

// lookAtAPIServer asks the API server for its version, and so for its date. It returns an error if the API server cannot be reached or does not know
// the caller. Then every other read would fail too.
func (e *examination) lookAtAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.timeout)
	defer cancel()
	server, err := e.apiServer(ctx)
	if err == nil {
		e.seen.APIServer = doctor.Found(server)
		e.behind = server.Behind()
		return nil
	}
	err = e.failed(access{verb: "get", resource: "/version"}, err)
	if !apierrors.IsForbidden(err) {
		return err
	}
	e.seen.APIServer = doctor.NotKnown[doctor.APIServer](doctor.Unknown{
		Why: "you may not get /version, which everybody may who is known to the API server, as a rule",
		Remedy: doctor.Remedy{Text: "An administrator can grant it:", Commands: []string{
			"kubectl create clusterrolebinding nodekeep-get-version --clusterrole=system:public-info-viewer --user=" + userIn(err),
		}},
	})
	return nil
}

func (e *examination) apiServer(ctx context.Context) (server doctor.APIServer, err error) {
	config := rest.CopyConfig(e.config)
	var date string
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dated{next, &date} })
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return doctor.APIServer{}, err
	}
	server.Asked = e.now()
	body, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	server.Answered = e.now()
	if err != nil {
		return doctor.APIServer{}, err
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return doctor.APIServer{}, err
	}
	server.Version = info.GitVersion
	if server.Date, err = http.ParseTime(date); err != nil {
		server.Date = server.Asked // nothing can be said of its clock
	}
	return server, nil
}

// dated notes the dates of answers.
type dated struct {
	next http.RoundTripper
	date *string
}

func (d dated) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err == nil {
		*d.date = response.Header.Get("Date")
	}
	return response, err
}

// gateServed asks whether the API server has the kind of policy at all.
func (e *examination) gateServed(ctx context.Context) (bool, error) {
	list, err := e.discovery.ServerResourcesForGroupVersionWithContext(ctx, admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(resource metav1.APIResource) bool { return resource.Name == "mutatingadmissionpolicies" }), nil
}

// apiGroups returns the names of those that the API server serves.
func (e *examination) apiGroups(ctx context.Context) (names []string, err error) {
	list, err := e.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	for _, group := range list.Groups {
		names = append(names, group.Name)
	}
	return names, nil
}

// How a Lease is watched of which it is not clear that a replica holds it. A leader renews it every two seconds.
const (
	leaseLook   = 500 * time.Millisecond
	leaseLooked = 6 * time.Second
)

func (c *cluster) toLease(name string) access {
	return access{verb: "get", group: coordinationv1.GroupName, resource: "leases", namespace: c.namespace, name: name}
}

// leaderOf is [cluster.leadership] by the clock of the API server.
func (e *examination) leaderOf(name string) func(context.Context) (doctor.Leadership, error) {
	return func(ctx context.Context) (doctor.Leadership, error) { return e.leadership(ctx, name, e.serverTime) }
}

// leadership reads the Lease of the leading replica. If the Lease may be stale or its clock wrong, it reads the Lease again until it is renewed.
func (c *cluster) leadership(ctx context.Context, name string, now func() time.Time) (doctor.Leadership, error) {
	get := func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.client.CoordinationV1().Leases(c.namespace).Get(ctx, name, metav1.GetOptions{})
	}
	lease, err := get(ctx)
	if err != nil {
		return doctor.Leadership{}, err
	}
	leader := doctor.Leadership{Lease: lease, At: now()}
	if !leader.Doubtful() {
		return leader, nil
	}
	_ = wait.PollUntilContextTimeout(ctx, leaseLook, leaseLooked, false, func(ctx context.Context) (bool, error) {
		again, err := get(ctx)
		if err == nil {
			leader = leader.Again(again, now())
		}
		return leader.Renewed, nil // the first read counts where there is no other
	})
	return leader, nil
}

// lookAtYourRights asks who the caller is and what he may do.
func (e *examination) lookAtYourRights(ctx context.Context) {
	seen := &e.seen
	reading(e, &seen.You, e.toAll("create", authenticationv1.GroupName, "selfsubjectreviews"), e.you)(ctx)
	reading(e, &seen.Yours, e.toAll("create", authorizationv1.GroupName, "selfsubjectaccessreviews"), e.yourRights)(ctx)
}

func (e *examination) yourRights(ctx context.Context) ([]doctor.HeldRight, error) {
	rights := doctor.YourRights(e.namespace)
	for i, right := range rights {
		a := access{verb: right.Verb, group: right.Group, resource: right.Resource, namespace: right.Namespace}
		var err error
		if rights[i].Held, err = e.may(ctx, a); err != nil {
			return nil, err
		}
		rights[i].Lacking = lacking(a, e.seen.You.Value, e.namespace)
	}
	return rights, nil
}
