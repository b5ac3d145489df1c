// Command clusterapi reads a MachineHealthCheck from its standard input, by the types of Cluster API and without unknown fields. It writes which
// conditions of a Node are unhealthy, and for how long they may be. A module of its own: nothing of it enters the product's go.mod.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // deprecated, and still served: the docs have an example of it
	"sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// unhealthy is a condition with which a Node counts as unhealthy, once it has it for so many seconds.
type unhealthy struct {
	Type, Status string
	Seconds      int
}

// read is what a MachineHealthCheck says.
type read struct {
	Conditions []unhealthy
	Brake      string // with more unhealthy machines, none is remediated
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	if kind.Kind != "MachineHealthCheck" {
		return fmt.Errorf("the kind is %q", kind.Kind)
	}
	var says read
	switch kind.APIVersion {
	case v1beta2.GroupVersion.String():
		says, err = readBeta2(text)
	case v1beta1.GroupVersion.String():
		says, err = readBeta1(text)
	default:
		err = fmt.Errorf("the version is %q", kind.APIVersion)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(says)
}

func readBeta2(text []byte) (says read, err error) {
	var check v1beta2.MachineHealthCheck
	if err := yaml.UnmarshalStrict(text, &check); err != nil {
		return says, err
	}
	for _, condition := range check.Spec.Checks.UnhealthyNodeConditions {
		says.Conditions = append(says.Conditions, unhealthy{string(condition.Type), string(condition.Status), int(*condition.TimeoutSeconds)})
	}
	says.Brake = check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo.String()
	return says, nil
}

func readBeta1(text []byte) (says read, err error) {
	var check v1beta1.MachineHealthCheck
	if err := yaml.UnmarshalStrict(text, &check); err != nil {
		return says, err
	}
	for _, condition := range check.Spec.UnhealthyConditions {
		says.Conditions = append(says.Conditions, unhealthy{string(condition.Type), string(condition.Status), int(condition.Timeout.Seconds())})
	}
	says.Brake = check.Spec.MaxUnhealthy.String() //nolint:staticcheck // as above
	return says, nil
}
