package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// judgeDeployment judges whether a process runs in as many replicas as it should, and can on new Nodes.
func judgeDeployment(seen Seen, check string, read Read[*appsv1.Deployment], component, rest string) answer {
	var a answer
	if read.Absent && !seen.byService() {
		return answer{ok: "none: it runs outside the cluster; the API server calls the webhook by a URL"}
	}
	if seen.compare(&a, check); !read.Found {
		return a
	}
	object, deployment := "deployment/nodekeep-"+component, read.Value
	wanted, available := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.AvailableReplicas
	a.ok = fmt.Sprintf("%d of %d replicas %s available", available, wanted, verb(int(available)))
	see := advice("See what keeps them:", seen.pods(component), seen.logs("nodekeep-"+component))
	switch {
	case wanted == 0:
		a.find(Error, object, seen.scaleUp(component, object), "it is scaled to nothing: %s", rest)
	case available == 0:
		a.find(Error, object, see, "none of %d replicas is available%s: %s", wanted, trouble(seen, component), rest)
	case available < wanted:
		a.find(Warning, object, see, "%d of %d replicas %s available%s", available, wanted, verb(int(available)), trouble(seen, component))
	case deployment.Status.ObservedGeneration < deployment.Generation:
		a.find(Warning, object, advice("Wait for it:", seen.kubectl("rollout status %s --timeout=2m", object)), "its last change is not rolled out")
	}
	if refused := intolerant(seen, deployment.Spec.Template.Spec.Tolerations); len(refused) > 0 {
		a.find(Error, object, advice("Add it to the tolerations of its pods, in what nodekeep was installed from."),
			"its pods do not tolerate %s: a cluster whose Nodes are all new does not recover by itself", strings.Join(refused, ", "))
	}
	return a
}

// intolerant returns the taints that new Nodes carry and the pods do not tolerate.
func intolerant(seen Seen, tolerations []corev1.Toleration) (refused []string) {
	taints := []corev1.Taint{seen.Gate().Taint()}
	if inForce, err := seen.InForce(); err == nil {
		taints = append(taints, inForce.AllRegistrationTaints()...)
	}
	for _, taint := range taints {
		tolerated := slices.ContainsFunc(tolerations, func(toleration corev1.Toleration) bool {
			return toleration.ToleratesTaint(logr.Discard(), &taint, false)
		})
		if !tolerated && taint.Effect != corev1.TaintEffectPreferNoSchedule {
			refused = append(refused, taint.ToString())
		}
	}
	return refused
}
