package cluster

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/cli/doctor"
)

// ExplainError explains the error of a call that needs a right. The result is a [DeniedError] if the right is missing, and an [UnreachableError] if
// the API server cannot be reached. Most other errors are returned unchanged.
func (c *Cluster) ExplainError(right doctor.Right, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err) && deniedCall().MatchString(err.Error()): // other Forbidden errors are of a quota or of admission
		return DeniedError{Missing: []doctor.Right{deniedRight(right, err)}, User: DeniedUser(err), namespace: c.Namespace, cause: err}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not know who you are: the credentials in the kubeconfig are missing, wrong or expired: %w", c.Config.Host, err)
	case !errors.As(err, &status):
		return UnreachableError{config: c.Config, cause: err}
	default:
		return err
	}
}

// deniedRight returns what the API server's authorizer says was denied, where it says so: of several calls, which one.
func deniedRight(asked doctor.Right, denial error) doctor.Right {
	match := deniedCall().FindStringSubmatch(denial.Error())
	if match == nil {
		return asked
	}
	denied := doctor.Right{Verb: match[1], Resource: match[2], Group: match[3], Namespace: match[4]}
	if asked.Verb == denied.Verb && asked.Group == denied.Group && asked.Resource == denied.Resource {
		denied.Name = asked.Name
	}
	return denied
}

func deniedCall() *regexp.Regexp {
	return regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?`)
}

// DeniedError reports which rights are missing: all that a command needs, or the one that a call was denied for.
type DeniedError struct {
	Missing   []doctor.Right
	User      string
	namespace string // the namespace that nodekeep is installed in
	cause     error  // what the API server said of one call; nil: it was asked beforehand
}

func (e DeniedError) Unwrap() error { return e.cause }

func (e DeniedError) Error() string {
	var lines []string
	for _, right := range e.Missing {
		lines = append(lines, right.Denied())
	}
	if e.cause != nil {
		lines = append(lines, "  the API server says: "+e.cause.Error())
	}
	remedy := doctor.GrantTo(e.User, e.namespace, e.Missing...)
	lines = append(lines, "  "+strings.ToLower(remedy.Text[:1])+remedy.Text[1:])
	for _, command := range remedy.Commands {
		lines = append(lines, "    "+command)
	}
	return strings.Join(lines, "\n")
}

// DeniedUser finds the caller's name in an answer of the API server's authorizer.
func DeniedUser(denial error) string {
	if match := regexp.MustCompile(`User "([^"]+)"`).FindStringSubmatch(denial.Error()); match != nil {
		return match[1]
	}
	return unknownUser
}

// unknownUser stands for a caller whose name is not known.
const unknownUser = "USER"

// UnreachableError reports where the API server was looked for.
type UnreachableError struct {
	config *rest.Config
	cause  error
}

func (e UnreachableError) Unwrap() error { return e.cause }

func (e UnreachableError) Error() string {
	return fmt.Sprintf("the API server at %s cannot be reached: %s\n  is it the right one? --kubeconfig, --context and --server say which is meant", e.config.Host, e.cause)
}
