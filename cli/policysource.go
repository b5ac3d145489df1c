package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

// policySource is where the policy and the key of the gate come from: flags, or else the cluster.
type policySource struct {
	file, gateKey string
	source        string // which policy was read, in words
}

func (s *policySource) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&s.file, "policy", "", "file with a NodePolicy to use instead of the cluster's (NodePolicy "+doctor.PolicyName+")")
	_ = command.MarkFlagFilename("policy", "yaml", "yml")
	s.addGateFlag(command)
}

func (s *policySource) addGateFlag(command *cobra.Command) {
	command.Flags().StringVar(&s.gateKey, "gate-key", "", "taint key of the gate; without it, the one in ConfigMap "+gateObjectName+" of the cluster, or else "+string(policy.DefaultGate))
}

// validate checks the gate's key.
func (s *policySource) validate() error {
	if wrong := validation.IsQualifiedName(s.gateKey); s.gateKey != "" && len(wrong) > 0 {
		return asUsage(fmt.Errorf("--gate-key %q: %s", s.gateKey, strings.Join(wrong, "; ")))
	}
	return nil
}

// gate returns that of the flag, or that of the cluster.
func (s *policySource) gate(ctx context.Context, c *session) (policy.Gate, error) {
	if s.gateKey != "" {
		return policy.Gate(s.gateKey), nil
	}
	found, err := c.GetGateConfigMap(ctx)
	if err != nil {
		return "", err
	}
	return c.clusterGate(found), nil
}

// clusterGate returns the gate of the cluster. Without a ConfigMap, a message says which one is taken.
func (c *session) clusterGate(found *corev1.ConfigMap) policy.Gate {
	if found == nil {
		c.say("The gate's key is not known, since namespace %s has no ConfigMap %s. %s is taken; --gate-key names another.", c.Namespace, gateObjectName, policy.DefaultGate)
	}
	return policy.Gate(cmp.Or(ptr.Deref(found, corev1.ConfigMap{}).Data[doctor.GateConfigMapKey], string(policy.DefaultGate)))
}

// read returns the policy of the file, or that of the cluster. If the NodePolicy does not count, a message says why, and what is in force instead. With
// c nil no cluster is asked.
func (s *policySource) read(ctx context.Context, c *session) (p policy.Policy, err error) {
	gate, installed := cmp.Or(policy.Gate(s.gateKey), policy.DefaultGate), true
	if c != nil && s.gateKey == "" {
		found, err := c.GetGateConfigMap(ctx)
		if err != nil {
			return p, err
		}
		gate, installed = c.clusterGate(found), found != nil
	}
	switch {
	case s.file != "":
		s.source = s.file
		return loadFile(s.file, gate)
	case c == nil:
		return policy.Default().WithGate(gate), nil
	}
	inForce, err := c.GetPolicyInForce(ctx, gate)
	if err != nil {
		return p, err
	}
	const hint = "If nodekeep is in another namespace, name it with -n."
	s.source = "the policy of the cluster (NodePolicy " + doctor.PolicyName + ")"
	if inForce.Problem != nil {
		s.source = view.InForceInstead(inForce)
	}
	switch {
	case inForce.Default():
		s.source = "the default policy, since there is no NodePolicy " + doctor.PolicyName
	case errors.Is(inForce.Problem, cluster.ErrNoPolicyCRD) && !installed && inForce.AcceptedKey == "":
		s.source = "the default policy, since nodekeep is not installed"
		c.say("This cluster has no CustomResourceDefinition %s, and namespace %s has no ConfigMap %s, so nodekeep is not installed. The default policy is taken. %s",
			doctor.PolicyCRD, c.Namespace, gateObjectName, hint)
		return inForce.Policy, nil
	case inForce.Problem != nil:
		c.say("%v: %s.", inForce.Problem, view.InForceInstead(inForce))
	}
	if !installed {
		c.say("Namespace %s has no ConfigMap %s, so nodekeep is not installed there. %s", c.Namespace, gateObjectName, hint)
	}
	c.inForce = inForce
	c.warnOldPolicy(ctx, inForce)
	return inForce.Policy, nil
}

func loadFile(path string, gate policy.Gate) (policy.Policy, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return policy.Policy{}, asUsage(fmt.Errorf("--policy: %w", err))
	}
	loaded, err := policy.Load(content, gate)
	if err != nil {
		return policy.Policy{}, asUsage(fmt.Errorf("--policy %s: %w", path, err))
	}
	return loaded, nil
}

// readFile reads a file, or stdin where the name is "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
