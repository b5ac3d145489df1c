package nodepolicy

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// InForce is which policy is in force, as far as the cluster shows it.
type InForce struct {
	Policy policy.Policy
	// Problem is why the NodePolicy does not count; nil: it does.
	Problem error
	// AcceptedKey is the key of ConfigMap [store.AcceptedConfigMap] that holds the policy where the NodePolicy does not count. It is empty for the default.
	AcceptedKey string
	// CopiesUnusable reports that there are copies, and none of them can be used. The default is in force.
	CopiesUnusable bool
	// Generation is that of the NodePolicy which is in force; 0: none is.
	Generation int64
	// UID is that of this NodePolicy.
	UID string
	// Status is what this NodePolicy says of the replicas that have read it, and of rules that are held. Nothing else of it is read.
	Status v1alpha1.NodePolicyStatus
}

// ErrNoNodePolicy reports that there is no NodePolicy.
var ErrNoNodePolicy = errors.New("there is no NodePolicy " + name)

// InForceOf decides as a process that starts does. It goes by the NodePolicy in JSON, nil if there is none, and by the data of ConfigMap
// [store.AcceptedConfigMap]. Both are what clients wrote, so a panic over one is an error of it.
func InForceOf(nodePolicy []byte, data map[string]string, gate policy.Gate) InForce {
	found := findings{manifest: nodePolicy, accepted: copies(data)}
	if nodePolicy == nil {
		found.err = ErrNoNodePolicy
	}
	r, _ := first(found, func(manifest []byte) (p policy.Policy, err error) {
		err = contain.Call(func() (err error) {
			p, err = policy.LoadObject(manifest, gate)
			return err
		})
		return p, err
	}, policy.Default().WithGate(gate))
	in := InForce{Policy: r.policy, Problem: r.trouble, CopiesUnusable: r.unusable}
	switch {
	case r.from == object:
		return in.followed(nodePolicy)
	case nodePolicy == nil:
		in.Problem = ErrNoNodePolicy
	}
	if r.from == accepted {
		for _, key := range slices.Backward(copyKeys()) {
			if data[key] == string(r.manifest) {
				in.AcceptedKey = key
			}
		}
	}
	return in
}

// copyKeys returns the keys of ConfigMap [store.AcceptedConfigMap] that hold policies which were accepted, the newest first.
func copyKeys() []string { return []string{store.AcceptedPolicy, store.AcceptedBefore} }

// copies returns these policies.
func copies(data map[string]string) (manifests [][]byte) {
	for _, key := range copyKeys() {
		if manifest, ok := data[key]; ok {
			manifests = append(manifests, []byte(manifest))
		}
	}
	return manifests
}

// Default reports that there is no NodePolicy and none was accepted: all is as at first.
func (in InForce) Default() bool {
	return errors.Is(in.Problem, ErrNoNodePolicy) && in.AcceptedKey == "" && !in.CopiesUnusable
}

// followed returns the policy with what its NodePolicy in JSON says of those who follow it. Any client that may write the status can write anything there,
// so what cannot be read counts as nothing.
func (in InForce) followed(nodePolicy []byte) InForce {
	var found struct {
		Metadata struct {
			Generation int64  `json:"generation"`
			UID        string `json:"uid"`
		} `json:"metadata"`
		Status struct {
			ReadBy map[string]json.RawMessage `json:"readBy"`
			Held   *v1alpha1.HeldRules        `json:"held"`
		} `json:"status"`
	}
	_ = json.Unmarshal(nodePolicy, &found) // it reads what it can
	in.Generation, in.UID, in.Status.Held, in.Status.ReadBy = found.Metadata.Generation, found.Metadata.UID, found.Status.Held, map[string]int64{}
	for pod, text := range found.Status.ReadBy {
		if generation, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			in.Status.ReadBy[pod] = generation
		}
	}
	return in
}

// Behind returns the Pods of nodekeep, of these, that are Ready and have not read this generation of the NodePolicy. A NodePolicy that is created anew
// begins with an empty status.
func (in InForce) Behind(pods []corev1.Pod) []string {
	if in.Generation == 0 {
		return nil
	}
	var ready []string
	for i := range pods {
		if follows(&pods[i]) && Ready(&pods[i]) {
			ready = append(ready, pods[i].Name)
		}
	}
	return in.Status.Behind(in.Generation, ready)
}

// Ready reports whether a Pod is Ready, and is not being deleted.
func Ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// follows reports whether a Pod is one of a process that follows the NodePolicy.
func follows(pod *corev1.Pod) bool {
	return slices.Contains([]string{"webhook", "capture", "verify"}, pod.Labels["app.kubernetes.io/component"])
}

// Doubtful reports whether the status leaves it open that every process follows this generation. It names no Pod that follows any, or it says of one
// that it follows another. That Pod may be deleted by now.
func (in InForce) Doubtful() bool {
	if in.Generation == 0 {
		return false
	}
	for _, generation := range in.Status.ReadBy {
		if generation != in.Generation {
			return true
		}
	}
	return len(in.Status.ReadBy) == 0
}
