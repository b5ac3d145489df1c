package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/policy"
)

// Where the manifests keep the policy and the gate's key.
const (
	policyConfigMap = "nodekeep-policy"
	policyKey       = "policy.yaml"
	gateKey         = "gate-key"
)

// policySource defines which policy counts and which taint is the gate: those of flags, or else those of the cluster.
type policySource struct {
	file, key string
	from      string // which policy was read, in words
}

func (s *policySource) addTo(command *cobra.Command) {
	command.Flags().StringVar(&s.file, "policy", "", "policy file to go by; without one, that of the cluster (ConfigMap "+policyConfigMap+")")
	_ = command.MarkFlagFilename("policy", "yaml", "yml")
	s.addGateTo(command)
}

func (s *policySource) addGateTo(command *cobra.Command) {
	command.Flags().StringVar(&s.key, "gate-key", "", "key of the gate's taint; without one, that of the cluster (ConfigMap "+policyConfigMap+"), or "+string(policy.DefaultGate))
}

// validate checks the gate's key.
func (s *policySource) validate() error {
	if wrong := validation.IsQualifiedName(s.key); s.key != "" && len(wrong) > 0 {
		return usage(fmt.Errorf("--gate-key %q: %s", s.key, strings.Join(wrong, "; ")))
	}
	return nil
}

// gate is that of the flag, or that of the cluster.
func (s *policySource) gate(ctx context.Context, c *cluster) (policy.Gate, error) {
	if s.key != "" {
		return policy.Gate(s.key), nil
	}
	found, err := c.policyMap(ctx)
	return s.gateIn(found), err
}

func (s *policySource) gateIn(found *corev1.ConfigMap) policy.Gate {
	return policy.Gate(cmp.Or(s.key, ptr.Deref(found, corev1.ConfigMap{}).Data[gateKey], string(policy.DefaultGate)))
}

// read is the policy of the file, or that of the cluster; without either, the default, with a message. With c nil no cluster
// is asked.
func (s *policySource) read(ctx context.Context, c *cluster) (p policy.Policy, err error) {
	var found *corev1.ConfigMap
	if c != nil && (s.file == "" || s.key == "") {
		if found, err = c.policyMap(ctx); err != nil {
			return p, err
		}
	}
	gate := s.gateIn(found)
	switch {
	case s.file != "":
		s.from = s.file
		return loadFile(s.file, gate)
	case found == nil && c != nil:
		s.from = fmt.Sprintf("the default policy, since namespace %s has no ConfigMap %s", c.namespace, policyConfigMap)
		c.say("Namespace %s has no ConfigMap %s, so nodekeep is not installed there. The default policy is taken for the policy of the cluster. If nodekeep is in another namespace, name it with -n.", c.namespace, policyConfigMap)
		fallthrough
	case found == nil:
		return policy.Default().WithGate(gate), nil
	}
	s.from = fmt.Sprintf("the policy of the cluster (ConfigMap %s in namespace %s)", policyConfigMap, c.namespace)
	if p, err = policy.Load([]byte(found.Data[policyKey]), gate); err != nil {
		err = fmt.Errorf("the cluster's policy (%s of ConfigMap %s in namespace %s) is wrong; the processes go by the last good one, and --policy FILE says which that is: %w", policyKey, policyConfigMap, c.namespace, err)
	}
	return p, err
}

func loadFile(path string, gate policy.Gate) (policy.Policy, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return policy.Policy{}, usage(fmt.Errorf("--policy: %w", err))
	}
	loaded, err := policy.Load(content, gate)
	if err != nil {
		return policy.Policy{}, usage(fmt.Errorf("--policy %s: %w", path, err))
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
