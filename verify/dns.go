package verify

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DNS resolves names. A name without a dot at its end is tried with the search domains of the Pod.
type DNS struct {
	// The names to resolve.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	Names []string `json:"names"`
	// Which DNS servers must answer: any (the default) or each.
	Servers Servers `json:"servers,omitempty"`
}

// Servers defines which DNS servers must answer.
// +kubebuilder:validation:Enum=any;each
type Servers string

// The values of servers.
const (
	AnyServer  Servers = "any"  // the Pod's own resolver
	EachServer Servers = "each" // every ready endpoint of the DNS Service besides: one good replica hides a broken path
)

func (*DNS) kind() Kind {
	return Kind{
		"dns", "every name of `names` resolves. A name of a Service (`NAME.NAMESPACE.svc...`) must resolve to its ClusterIP",
		"a name without a dot at its end uses the Pod's search domains. `servers: each` also asks each ready endpoint of the DNS Service, 20 at most: one good replica hides a broken path. " +
			"Endpoints of Pods that no controller owns do not count, static Pods among them: any kubelet could add them",
	}
}

func (d *DNS) compile(c *compiler, path *field.Path) {
	if len(d.Names) == 0 {
		c.required(path.Child("names"), "at least one name to resolve, such as kubernetes.default.svc")
	}
	if !c.tooMany(len(d.Names), path.Child("names")) {
		for i, name := range d.Names {
			wrong := validation.IsDNS1123Subdomain(strings.TrimSuffix(name, "."))
			if len(validation.IsValidIP(path, name)) == 0 {
				wrong = []string{"must be a name; an address is nothing to resolve"}
			}
			c.invalid(path.Child("names").Index(i), name, wrong...)
		}
	}
	d.Servers = oneOf(c, path.Child("servers"), cmp.Or(d.Servers, AnyServer), AnyServer, EachServer)
}

func (d *DNS) needs() Needs { return Needs{Resolves: d.Names, EachServer: d.Servers == EachServer} }

func (d *DNS) answered() answer {
	return byWorker(func(worker Asker) error { return worker.DNS(d) })
}
