package examine

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
)

// lookAtAPIServer asks the API server for its version, and so for its date. It returns an error if the API server cannot be reached or does not know
// the caller. Then every other read would fail too.
func (e *examination) lookAtAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	server, err := e.apiServer(ctx)
	if err == nil {
		e.seen.APIServer = doctor.Found(server)
		e.clockLag = server.ClockLag()
		return nil
	}
	err = e.ExplainError(doctor.Right{Verb: "get", Resource: "/version"}, err)
	if !apierrors.IsForbidden(err) {
		return err
	}
	e.seen.APIServer = doctor.NotKnown[doctor.APIServer](doctor.Unknown{
		Reason: "you may not get /version, which everybody may who is known to the API server, as a rule",
		Remedy: doctor.Remedy{Text: "An administrator can grant it:", Commands: []string{
			"kubectl create clusterrolebinding nodekeep-get-version --clusterrole=system:public-info-viewer --user=" + cluster.DeniedUser(err),
		}},
	})
	return nil
}

func (e *examination) apiServer(ctx context.Context) (server doctor.APIServer, err error) {
	config := rest.CopyConfig(e.Config)
	var date string
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dateTransport{next, &date} })
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return doctor.APIServer{}, err
	}
	server.Asked = e.Now()
	body, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	server.Answered = e.Now()
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

// dateTransport notes the dates of answers.
type dateTransport struct {
	next http.RoundTripper
	date *string
}

func (d dateTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err == nil {
		*d.date = response.Header.Get("Date")
	}
	return response, err
}

// mutatingPoliciesServed asks whether the API server serves MutatingAdmissionPolicies. By policies of this kind the API server adds the gate.
func (e *examination) mutatingPoliciesServed(ctx context.Context) (bool, error) {
	list, err := e.discovery.ServerResourcesForGroupVersionWithContext(ctx, admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(resource metav1.APIResource) bool { return resource.Name == "mutatingadmissionpolicies" }), nil
}

// apiGroups returns the names of the API groups that the API server serves.
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

// leaderOf is [cluster.Cluster.GetLeadership] by the clock of the API server.
func (e *examination) leaderOf(name string) func(context.Context) (doctor.Leadership, error) {
	return func(ctx context.Context) (doctor.Leadership, error) { return e.GetLeadership(ctx, name, e.serverTime) }
}

// lookAtCallerRights asks who the caller is and what he may do.
func (e *examination) lookAtCallerRights(ctx context.Context) {
	seen := &e.seen
	readInto(e, &seen.Caller, clusterRight("create", authenticationv1.GroupName, "selfsubjectreviews"), e.Username)(ctx)
	readInto(e, &seen.CallerRights, clusterRight("create", authorizationv1.GroupName, "selfsubjectaccessreviews"), e.yourRights)(ctx)
}

func (e *examination) yourRights(ctx context.Context) ([]doctor.CheckedRight, error) {
	rights := doctor.CallerRights(e.Namespace)
	for i, right := range rights {
		var err error
		if rights[i].Granted, err = e.CanI(ctx, right.Right); err != nil {
			return nil, err
		}
	}
	return rights, nil
}
