package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/policy"
)

// Where the manifests keep the policy and the gate's key.
const (
	policyConfigMap = "nodekeep-policy"
	policyKey       = "policy.yaml"
	gateKey         = "gate-key"
)

// gateSource says which taint is the gate: the one of a flag, or else the cluster's.
type gateSource struct{ key string }

func (s *gateSource) addTo(command *cobra.Command) {
	command.Flags().StringVar(&s.key, "gate-key", "", "key of the gate's taint; without one, that of the cluster (ConfigMap "+policyConfigMap+"), or "+string(policy.DefaultGate))
}

// flag is the gate of the flag; empty where it is not given.
func (s *gateSource) flag() (policy.Gate, error) {
	if s.key == "" {
		return "", nil
	}
	if wrong := validation.IsQualifiedName(s.key); len(wrong) > 0 {
		return "", usage(fmt.Errorf("--gate-key %q: %s", s.key, strings.Join(wrong, "; ")))
	}
	return policy.Gate(s.key), nil
}

func (s *gateSource) read(ctx context.Context, c *cluster) (policy.Gate, error) {
	if gate, err := s.flag(); gate != "" || err != nil {
		return gate, err
	}
	data, _, err := c.configMap(ctx, policyConfigMap)
	return policy.Gate(cmp.Or(data[gateKey], string(policy.DefaultGate))), err
}

// policySource says which policy counts: a file's, or else that of the cluster.
type policySource struct {
	gateSource
	file string
}

func (s *policySource) addTo(command *cobra.Command) {
	command.Flags().StringVar(&s.file, "policy", "", "policy file to go by; without one, that of the cluster (ConfigMap "+policyConfigMap+")")
	_ = command.MarkFlagFilename("policy", "yaml", "yml")
	s.gateSource.addTo(command)
}

// fromFile is the policy of the file, or the default, for commands that need no cluster.
func (s *policySource) fromFile() (policy.Policy, error) {
	gate, err := s.flag()
	if err != nil {
		return policy.Policy{}, err
	}
	gate = cmp.Or(gate, policy.DefaultGate)
	if s.file == "" {
		return policy.Default().WithGate(gate), nil
	}
	return loadFile(s.file, gate)
}

// read is the policy of the file, or that of the cluster; without either, the default, and the person is told.
func (s *policySource) read(ctx context.Context, c *cluster) (policy.Policy, error) {
	gate, err := s.gateSource.read(ctx, c)
	if err != nil {
		return policy.Policy{}, err
	}
	if s.file != "" {
		return loadFile(s.file, gate)
	}
	data, found, err := c.configMap(ctx, policyConfigMap)
	if err != nil {
		return policy.Policy{}, err
	}
	if !found {
		c.say("No ConfigMap %s in namespace %s: the default policy is taken to be in force. Is nodekeep installed there?", policyConfigMap, c.namespace)
		return policy.Default().WithGate(gate), nil
	}
	loaded, err := policy.Load([]byte(data[policyKey]), gate)
	if err != nil {
		return policy.Policy{}, fmt.Errorf("the cluster's policy (%s of ConfigMap %s in namespace %s) is wrong; the processes go by the last good one, and --policy FILE says which that is: %w", policyKey, policyConfigMap, c.namespace, err)
	}
	return loaded, nil
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

// configMap is what a ConfigMap of the installation holds; one that is not there holds nothing.
func (c *cluster) configMap(ctx context.Context, name string) (data map[string]string, found bool, err error) {
	cm, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, c.failed(c.toRecords("get"), err)
	}
	return cm.Data, true, nil
}

// readFile reads a file, or stdin where the name is "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
