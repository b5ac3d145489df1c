package cli

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nodeName reads the name of a Node as a person writes it, or as `-o name` prints it.
func nodeName(argument string) (string, error) {
	name := argument
	for _, kind := range []string{"node/", "nodes/"} {
		name = strings.TrimPrefix(name, kind)
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q cannot be the name of a Node: %s", argument, wrong[0])
	}
	return name, nil
}
