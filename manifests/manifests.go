// Package manifests holds what the chart renders, and compares objects of a cluster with it.
package manifests

import (
	_ "embed" // the rendered file
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Namespace is the namespace of an installation, unless it has chosen another.
const Namespace = "nodekeep-system"

// Complete is complete.yaml, one object a document. It has the objects that do nodekeep's work and their rights, with all options of the chart.
//
//go:embed complete.yaml
var Complete string

// EmergencyName is the name of both objects that declare an emergency.
const EmergencyName = "nodekeep-emergency"

// Emergency is emergency.yaml: the Role and the RoleBinding that declare an emergency. No chart has them.
//
//go:embed emergency.yaml
var Emergency string

// Objects returns the shipped objects that are wanted, by their names as kubectl takes them. They are for an installation in that namespace.
func Objects(namespace string, wanted func(name string) bool) (objects []unstructured.Unstructured, err error) {
	title := regexp.MustCompile(`(?ms)^kind: (\w+)$.*?^  name: (\S+)$`) // YAML is slow to read, so only what is wanted is
	for document := range strings.SplitSeq(strings.ReplaceAll(Complete, Namespace, namespace), "\n---\n") {
		if titled := title.FindStringSubmatch(document); titled == nil || !wanted(named(titled[1], titled[2])) {
			continue
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Name returns an object as kubectl takes it.
func Name(object unstructured.Unstructured) string { return named(object.GetKind(), object.GetName()) }

func named(kind, name string) string { return strings.ToLower(kind) + "/" + name }
