package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// What the API server makes of a request.
const (
	yes = "yes"
	no  = "no" // no right to it
)

// request is one call of the API server.
type request struct {
	method, path string
	body         any
	kind         string   // Content-Type; empty: JSON, of a PATCH a JSON merge patch
	user         string   // acts as this user; empty: as itself
	groups       []string // and as these groups
	stored       bool     // no dry run
	host         string   // of another server than the API server
	unserved     bool     // an allowed request ends with an error: what it needs does not run here
}

// right is what RBAC calls the request.
type right struct{ verb, group, resource, namespace, name string }

// right returns that of the request itself, not of acting as another user.
func (r request) right() right {
	path, query, _ := strings.Cut(r.path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	item := right{}
	if parts[0] == "apis" {
		item.group, parts = parts[1], parts[3:]
	} else {
		parts = parts[2:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		item.namespace, parts = parts[1], parts[2:]
	}
	item.resource = parts[0]
	if len(parts) > 1 {
		item.name = parts[1]
	}
	if len(parts) > 2 {
		item.resource += "/" + parts[2]
	}
	switch {
	case r.method == http.MethodGet && item.name == "":
		item.verb = "list"
	default:
		item.verb = map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.method]
	}
	if name, ok := strings.CutPrefix(query, "fieldSelector=metadata.name="); ok { // RBAC takes it for the name
		item.name = name
	}
	return item
}

// denial finds the policy in the message of a request that it denied.
var denial = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)

// run sends the request with an identity. The outcome is yes, no, or the name of the policy that denied it.
func (r request) run(ctx context.Context, config *rest.Config) (outcome string, err error) {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: r.user, Groups: r.groups}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	if r.method != http.MethodGet && !r.stored {
		r.path += "?dryRun=" + metav1.DryRunAll
	}
	if r.method == http.MethodPut {
		if r.body, err = current(ctx, strings.TrimSuffix(r.path, "?dryRun="+metav1.DryRunAll)); err != nil {
			return "", err
		}
	}
	status, body, err := r.send(ctx, client, config.Host)
	if err != nil {
		return "", err
	}
	by := denial.FindSubmatch(body)
	switch {
	case by != nil && slices.Contains([]int{http.StatusForbidden, http.StatusUnprocessableEntity}, status):
		return string(by[1]), nil
	case status == http.StatusForbidden:
		return no, nil
	case status < http.StatusBadRequest, r.unserved:
		return yes, nil
	}
	return "", fmt.Errorf("%s %s: %d: %s", r.method, r.path, status, body)
}

// send sends the request as it is. Its body is JSON, or bytes.
func (r request) send(ctx context.Context, client *http.Client, host string) (status int, received []byte, err error) {
	body, raw := r.body.([]byte)
	if !raw && r.body != nil {
		if body, err = json.Marshal(r.body); err != nil {
			return 0, nil, err
		}
	}
	if r.host != "" {
		host = r.host
	}
	call, err := http.NewRequestWithContext(ctx, r.method, host+r.path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	kind := r.kind
	switch {
	case kind != "":
	case r.method == http.MethodPatch:
		kind = "application/merge-patch+json"
	default:
		kind = "application/json"
	}
	call.Header.Set("Content-Type", kind)
	answer, err := client.Do(call)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	received, err = io.ReadAll(answer.Body)
	return answer.StatusCode, received, err
}

// current returns an object as an administrator reads it.
func current(ctx context.Context, path string) (next any, err error) {
	body, err := nodekeep.Admin.RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	return next, json.Unmarshal(body, &next)
}
