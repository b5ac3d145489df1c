package doctor

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// differences returns the fields that an object of the cluster has otherwise than the shipped one.
func (s Installation) differences(object Object) []manifests.Difference {
	c := manifests.Comparison{
		Optional: protectedHook, // see judgeRestoreWebhook
		Replace:  strings.NewReplacer(string(policy.DefaultGate), string(s.Gate())),
	}
	if object.Name() == guard.VerifyObject || object.Name() == removalPolicyObject { // the chart renders the profiles into them
		c.Replace = strings.NewReplacer("['"+verify.Taint+"']", "['"+strings.Join(s.VerificationKeys(), "','")+"']", "'"+verify.Label+"'", "'"+s.verifiedLabel()+"'")
	}
	switch object.Shipped.GetKind() {
	case "Deployment":
		c.Partial = true
		c.Ignored = sets.New("replicas", "strategy", "affinity", "nodeSelector", "priorityClassName", "tolerations", "topologySpreadConstraints", "hostNetwork",
			"terminationGracePeriodSeconds", "image", "imagePullPolicy", "resources", "ports", "startupProbe", "readinessProbe", "livenessProbe")
	case "PriorityClass":
		c.Ignored = sets.New("value", "description")
	case "Service", "ServiceAccount":
		c.Partial = true
	case "ConfigMap":
		c.Ignored = sets.New("data") // the key of this installation's gate
	case "CustomResourceDefinition":
		c.Ignored = sets.New("conversion", "description")
	case "Role", "ClusterRole":
		c.Ignored = sets.New("rules") // compared by what they grant
	}
	return c.Differences(object.Shipped.Object, object.Live.Value.Object)
}

// maxPatchedValue is how long a value may be in a command that operators read before they run it.
const maxPatchedValue = 100

// fieldRemedy returns a command that changes the one field, where that is a short one. For Deployments it is reapply, which changes them where they were
// installed from.
func (s Installation) fieldRemedy(object Object, d manifests.Difference, reapply Remedy) Remedy {
	value, err := json.Marshal(d.Shipped)
	switch {
	case err != nil || len(value) > maxPatchedValue || strings.Contains(string(value), "'") || object.Shipped.GetKind() == "Deployment":
		return reapply
	case strings.HasPrefix(d.Path, "roleRef"): // no API server changes it
		reapply.Commands = append([]string{object.kubectl("delete", "")}, reapply.Commands...)
		return reapply
	case d.Shipped == nil:
		return newRemedy("Remove it:", object.kubectl("patch", ` --type=json -p='[{"op":"remove","path":"%s"}]'`, d.Pointer))
	}
	operation := "replace"
	if d.Found == nil {
		operation = "add"
	}
	return newRemedy("Set the shipped value:", object.kubectl("patch", ` --type=json -p='[{"op":"%s","path":"%s","value":%s}]'`, operation, d.Pointer, value))
}

// kubectl returns a command about the object.
func (o Object) kubectl(verb, arguments string, args ...any) string {
	namespaceFlag := ""
	if namespace := o.Shipped.GetNamespace(); namespace != "" {
		namespaceFlag = " -n " + namespace
	}
	return "kubectl" + namespaceFlag + " " + verb + " " + o.Name() + fmt.Sprintf(arguments, args...)
}
