package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// access is one kind of call to the API server, and so one right of the caller's.
type access struct {
	verb, group, resource string
	namespace             string // empty: the resource has none
	name                  string // of the one object; empty: all
}

func (c *cluster) toNodes(verb string) access { return access{verb: verb, resource: "nodes"} }

func (c *cluster) toRecords(verb string) access {
	return access{verb: verb, resource: "configmaps", namespace: c.namespace}
}

// failed makes the error of a call more helpful. It names the missing right, or the address of the API server if that cannot be reached. Any other
// error is returned unchanged.
func (c *cluster) failed(a access, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err) && deniedCall().MatchString(err.Error()): // else a quota, say, or an admission rule
		return deniedError{missing: []access{a.asTold(err)}, user: userIn(err), release: c.namespace, cause: err}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not know who you are: the credentials in the kubeconfig are missing, wrong or expired: %w", c.config.Host, err)
	case !errors.As(err, &status):
		return unreachableError{config: c.config, cause: err}
	default:
		return err
	}
}

// failedWrite is failed for a call that changes something. Without an answer from the API server it is not known whether the change was made.
func (c *cluster) failedWrite(a access, what string, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil || errors.As(err, &status):
		return c.failed(a, err)
	case errors.Is(err, context.Canceled):
		return exitError{exitInterrupted, fmt.Errorf("interrupted while %s was being changed: look whether it was", what)}
	default:
		return fmt.Errorf("the API server did not answer, and %s may have been changed or not: look whether it was: %w", what, err)
	}
}

// asTold returns what the API server's authorizer says was denied, where it says so: of several calls, which one.
func (a access) asTold(denial error) access {
	found := deniedCall().FindStringSubmatch(denial.Error())
	if found == nil {
		return a
	}
	told := access{verb: found[1], resource: found[2], group: found[3], namespace: found[4]}
	if a.verb == told.verb && a.group == told.group && a.resource == told.resource {
		told.name = a.name
	}
	return told
}

func deniedCall() *regexp.Regexp {
	return regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?`)
}

// deniedError reports which rights are missing: all that a command needs, or the one that a call was denied for.
type deniedError struct {
	missing []access
	user    string
	release string // the namespace that nodekeep is installed in
	cause   error  // what the API server said of one call; nil: it was asked beforehand
}

func (e deniedError) Unwrap() error { return e.cause }

func (e deniedError) Error() string {
	var lines []string
	for _, a := range e.missing {
		lines = append(lines, a.denied())
	}
	if e.cause != nil {
		lines = append(lines, "  the API server says: "+e.cause.Error())
	}
	remedy := grantTo(e.user, e.release, e.missing...)
	lines = append(lines, "  "+strings.ToLower(remedy.Text[:1])+remedy.Text[1:])
	for _, command := range remedy.Commands {
		lines = append(lines, "    "+command)
	}
	return strings.Join(lines, "\n")
}

func (a access) fullResource() string {
	if a.group == "" {
		return a.resource
	}
	return a.resource + "." + a.group
}

func (a access) where() string {
	if a.namespace == "" {
		return "in the whole cluster"
	}
	return "in namespace " + a.namespace
}

// userIn finds the caller's name in an answer of the API server's authorizer.
func userIn(denial error) string {
	if found := regexp.MustCompile(`User "([^"]+)"`).FindStringSubmatch(denial.Error()); found != nil {
		return found[1]
	}
	return unknownUser
}

// unknownUser stands for a caller whose name is not known.
const unknownUser = "USER"

// unreachableError reports where the API server was looked for.
type unreachableError struct {
	config *rest.Config
	cause  error
}

func (e unreachableError) Unwrap() error { return e.cause }

func (e unreachableError) Error() string {
	return fmt.Sprintf("the API server at %s cannot be reached: %s\n  is it the right one? --kubeconfig, --context and --server say which is meant", e.config.Host, e.cause)
}

// denied reports that the caller lacks the right.
func (a access) denied() string {
	return fmt.Sprintf("you may not %s %s %s", a.verb, a.fullResource(), a.where())
}
