// Command kind reads the configuration of a cluster from its standard input as kind does, without unknown fields. It writes the roles of its nodes.
// A module of its own: nothing of it enters the product's go.mod.
package main

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

func main() {
	decoder := yaml.NewDecoder(os.Stdin)
	decoder.KnownFields(true)
	var cluster v1alpha4.Cluster
	if err := decoder.Decode(&cluster); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, cluster.Kind, cluster.APIVersion)
	for _, node := range cluster.Nodes {
		fmt.Fprintln(os.Stdout, node.Role)
	}
}
