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
func judgeDeployment(seen Installation, check string, read Reading[*appsv1.Deployment], component, consequence string) answer {
	var a answer
	if read.Absent && !seen.calledByService() {
		return answer{okText: "none: it runs outside the cluster; the API server calls the webhook by a URL"}
	}
	if seen.compare(&a, check); !read.Found {
		return a
	}
	object, deployment := "deployment/nodekeep-"+component, read.Value
	wanted, available := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.AvailableReplicas
	a.okText = fmt.Sprintf("%d of %d replicas %s available", available, wanted, verb(int(available)))
	podsRemedy := newRemedy("See what keeps them:", seen.podsCommand(component), seen.logsCommand("nodekeep-"+component))
	switch {
	case wanted == 0:
		a.add(Error, object, seen.scaleUpRemedy(component, object), "it is scaled to nothing: %s", consequence)
	case available == 0:
		a.add(Error, object, podsRemedy, "none of %d replicas is available%s: %s", wanted, podProblem(seen, component), consequence)
	case available < wanted:
		a.add(Warning, object, podsRemedy, "%d of %d replicas %s available%s", available, wanted, verb(int(available)), podProblem(seen, component))
	case deployment.Status.ObservedGeneration < deployment.Generation:
		a.add(Warning, object, newRemedy("Wait for it:", seen.kubectl("rollout status %s --timeout=2m", object)), "its last change is not rolled out")
	}
	if refused := intolerant(seen, deployment.Spec.Template.Spec.Tolerations); len(refused) > 0 {
		a.add(Error, object, newRemedy("Add it to the tolerations of its pods, in what nodekeep was installed from."),
			"its pods do not tolerate %s: a cluster whose Nodes are all new does not recover by itself", strings.Join(refused, ", "))
	}
	return a
}

// intolerant returns the taints that new Nodes carry and the pods do not tolerate.
func intolerant(seen Installation, tolerations []corev1.Toleration) (refused []string) {
	taints := []corev1.Taint{seen.Gate().Taint()}
	if inForce, err := seen.PolicyInForce(); err == nil {
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
