package examine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodekeep.dev/nodekeep/cli/doctor"
)

// API groups of policy engines. The kinds of constraints are as many as an administrator makes.
const (
	groupKyverno         = "kyverno.io"
	groupKyvernoPolicies = "policies.kyverno.io"
	groupGatekeeper      = "constraints.gatekeeper.sh"
)

// ruleLooks read the admission rules of the whole cluster.
func (e *examination) ruleLooks() []look {
	seen, admission := &e.seen, e.Client.AdmissionregistrationV1()
	checks := []string{"admission-rules"}
	listRight := func(resource string) doctor.Right { return clusterRight("list", admissionGroup, resource) }
	all := metav1.ListOptions{}
	return []look{
		{checks: checks, read: listInto(e, &seen.ValidatingPolicies, listRight("validatingadmissionpolicies"), admission.ValidatingAdmissionPolicies(), all)},
		{checks: checks, read: listInto(e, &seen.ValidatingBindings, listRight("validatingadmissionpolicybindings"), admission.ValidatingAdmissionPolicyBindings(), all)},
		{checks: checks, read: listInto(e, &seen.AllValidating, listRight("validatingwebhookconfigurations"), admission.ValidatingWebhookConfigurations(), all)},
		{checks: checks, read: listInto(e, &seen.AllMutating, listRight("mutatingwebhookconfigurations"), admission.MutatingWebhookConfigurations(), all)},
		{checks: checks, read: readInto(e, &seen.Kyverno, clusterRight("list", groupKyverno, "clusterpolicies"), func(ctx context.Context) ([]unstructured.Unstructured, error) {
			policies, err := e.objectsOf(ctx, groupKyverno, "clusterpolicies")
			validating, moreErr := e.objectsOf(ctx, groupKyvernoPolicies, "validatingpolicies")
			return slices.Concat(policies, validating), errors.Join(err, moreErr)
		})},
		{checks: checks, read: readInto(e, &seen.Gatekeeper, clusterRight("list", groupGatekeeper, "*"), func(ctx context.Context) ([]unstructured.Unstructured, error) {
			return e.objectsOf(ctx, groupGatekeeper, "")
		})},
	}
}

// objectsOf lists the objects of a resource of an API group. Without a resource it lists all of the group; if the group is not served, the list is
// empty.
func (e *examination) objectsOf(ctx context.Context, group, resource string) (objects []unstructured.Unstructured, err error) {
	served, err := e.clusterResources(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, kind := range served {
		if resource != "" && kind.Resource != resource {
			continue
		}
		list, err := e.Dynamic.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, e.ExplainError(doctor.Right{Verb: "list", Group: group, Resource: kind.Resource}, err)
		}
		objects = append(objects, list.Items...)
	}
	return objects, nil
}

// clusterResources returns the resources of an API group without a namespace, in the version that the API server prefers.
func (e *examination) clusterResources(ctx context.Context, group string) (resources []schema.GroupVersionResource, err error) {
	groups, err := e.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("list API groups: %w", err)
	}
	i := slices.IndexFunc(groups.Groups, func(candidate metav1.APIGroup) bool { return candidate.Name == group })
	if i < 0 {
		return nil, nil
	}
	version := groups.Groups[i].PreferredVersion
	list, err := e.discovery.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
	if err != nil {
		return nil, fmt.Errorf("list resources of %s: %w", version.GroupVersion, err)
	}
	for _, resource := range list.APIResources {
		if !resource.Namespaced && !strings.Contains(resource.Name, "/") {
			resources = append(resources, schema.GroupVersionResource{Group: group, Version: version.Version, Resource: resource.Name})
		}
	}
	return resources, nil
}
