package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// platform is what a Node of a platform shows, and who has set it.
type platform struct {
	Title          string `json:"title,omitempty"` // for docs/platforms.md; empty: the name of the file
	Name           string `json:"name"`
	ProviderID     string `json:"pid,omitempty"`
	KubeletManager string `json:"kubelet_manager,omitempty"` // empty: kubelet
	// Kubelet has the labels of the CREATE, but for the hostname.
	Kubelet map[string]string `json:"kubelet"`
	// By has the labels that others set afterwards, by field manager.
	By map[string]map[string]string `json:"by"`
	// Annotations and Taints are those of the CREATE.
	Annotations map[string]string `json:"ann"`
	Taints      []corev1.Taint    `json:"taints"`
}

// hidden stands in place of the value of an annotation.
const hidden = "x"

// platformOf returns the platform of a Node, which gets another name. It also names the labels that no manager owns: who set them is not known.
func platformOf(node *corev1.Node, name string) (p platform, unowned []string, err error) {
	rename := func(text string) string { return strings.ReplaceAll(text, node.Name, name) }
	owners := observe.FromNode(node).Owners
	switch {
	case node.Name == "":
		return platform{}, nil, errors.New("one Node is expected, not a list")
	case len(owners) == 0:
		return platform{}, nil, fmt.Errorf("node %s has no managedFields: read it with kubectl get --show-managed-fields", node.Name)
	}
	kubelet := kubeletOf(owners)
	p = platform{Name: name, Kubelet: map[string]string{}, By: map[string]map[string]string{}, Annotations: map[string]string{}, Taints: []corev1.Taint{}}
	if kubelet != policy.Kubelet {
		p.KubeletManager = rename(kubelet)
	}
	p.ProviderID = providerIDOf(node.Spec.ProviderID, name)
	for key, value := range node.Labels {
		if key == corev1.LabelHostname {
			continue
		}
		if len(owners[key]) == 0 {
			unowned = append(unowned, key)
		}
		for _, manager := range owners[key] {
			labels := p.Kubelet
			if manager != kubelet || !policy.AllowedForKubelet(key) { // other parts of the kubelet's program can have its manager
				if p.By[rename(manager)] == nil {
					p.By[rename(manager)] = map[string]string{}
				}
				labels = p.By[rename(manager)]
			}
			labels[rename(key)] = rename(value)
		}
	}
	for key, value := range node.Annotations {
		if !ofNodekeep(key) {
			p.Annotations[key] = annotationValue(key, value)
		}
	}
	for _, taint := range node.Spec.Taints {
		if !ofNodekeep(taint.Key) && !ofNodeLifecycle(taint.Key) {
			p.Taints = append(p.Taints, corev1.Taint{Key: taint.Key, Value: rename(taint.Value), Effect: taint.Effect})
		}
	}
	slices.Sort(unowned)
	record.SortTaints(p.Taints)
	return p, unowned, nil
}

// kubeletOf returns the manager of the kubelet, which some platforms build into a program of their own.
func kubeletOf(owners map[string][]string) string {
	managers := owners[corev1.LabelHostname]
	if len(managers) == 0 || slices.Contains(managers, policy.Kubelet) {
		return policy.Kubelet
	}
	return managers[0]
}

// providerIDOf returns a providerID of the same kind that names no machine.
func providerIDOf(id, name string) string {
	if provider, _, ok := strings.Cut(id, "://"); ok {
		return provider + "://" + name
	}
	if id == "" {
		return ""
	}
	return name
}

// annotationValue hides the value of an annotation, which may hold anything. Only a list of labels that a component claims stays.
func annotationValue(key, value string) string {
	if annotation := map[string]string{key: value}; len(policy.Claimed(annotation)) > 0 || len(policy.Claims(annotation)) > 0 {
		return value
	}
	return hidden
}

func ofNodekeep(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "nodekeep.dev" || strings.HasSuffix(domain, ".nodekeep.dev")
}

// ofNodeLifecycle reports whether Kubernetes itself adds a taint with this key, by the conditions of the Node.
func ofNodeLifecycle(key string) bool { return strings.HasPrefix(key, "node.kubernetes.io/") }

// file returns the platform as a file of testdata.
func (p platform) file() ([]byte, error) {
	content, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write platform: %w", err)
	}
	return append(content, '\n'), nil
}
