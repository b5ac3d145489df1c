package verify

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Service connects by TCP to a Service and to endpoints of it on other Nodes.
type Service struct {
	// NAMESPACE/NAME.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Name string `json:"name"`
	// The port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port"`
	// How many endpoints on other Nodes are asked; 0 is the Service alone.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Endpoints int `json:"endpoints,omitempty"`
}

func (*Service) kind() Kind {
	return Kind{
		"service", "a TCP connection to the Service's ClusterIP and `port` opens, and to `endpoints` of its endpoints on other Nodes",
		"`endpoints: 0` (default) asks the Service alone",
	}
}

func (s *Service) compile(c *compiler, path *field.Path) {
	c.namespaced(s.Name, validation.IsDNS1123Label, path.Child("name"))
	c.invalid(path.Child("port"), s.Port, validation.IsValidPortNum(s.Port)...)
	if s.Endpoints < 0 || s.Endpoints > maxEndpoints {
		c.invalid(path.Child("endpoints"), s.Endpoints, fmt.Sprintf("must be from 0, the Service alone, to %d", maxEndpoints))
	}
}

func (s *Service) needs() Needs { return Needs{Service: s} }

func (s *Service) answered() answer {
	return byWorker(func(worker Asker) error { return worker.Service(s) })
}

// Target returns the key in [Task.Services] of what was looked up for this check: NAMESPACE/NAME:PORT. Endpoints are those of one port.
func (s *Service) Target() string { return fmt.Sprintf("%s:%d", s.Name, s.Port) }
