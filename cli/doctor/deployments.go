package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// judgeDeployment judges whether a process runs in as many replicas as it should, and can on new Nodes.
func judgeDeployment(seen Seen, check string, read Read[*appsv1.Deployment], component, without string) answer {
	var a answer
	if read.Absent && !seen.byService() {
		return answer{ok: "none: it runs outside the cluster; the API server calls the webhook by a URL"}
	}
	if seen.compare(&a, check); !read.Found {
		return a
	}
	object, deployment := "deployment/nodekeep-"+component, read.Value
	wanted, available := int32(1), deployment.Status.AvailableReplicas
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	a.ok = fmt.Sprintf("%d of %d available", available, wanted)
	see := Remedy{Text: "See what keeps them:", Commands: []string{pods(seen.Namespace, component), logs(seen.Namespace, "nodekeep-"+component)}}
	switch {
	case wanted == 0:
		a.add(Finding{
			Severity: Error, Object: object, What: "it is scaled to nothing: " + without,
			Remedy: Remedy{Text: "Scale it up again:", Commands: []string{fmt.Sprintf("kubectl -n %s scale %s --replicas=2", seen.Namespace, object)}},
		})
	case available == 0:
		a.add(Finding{Severity: Error, Object: object, What: fmt.Sprintf("none of %d replicas is available%s: %s", wanted, trouble(seen, component), without), Remedy: see})
	case available < wanted:
		a.add(Finding{Severity: Warning, Object: object, What: fmt.Sprintf("%d of %d replicas are available%s", available, wanted, trouble(seen, component)), Remedy: see})
	case deployment.Status.ObservedGeneration < deployment.Generation:
		a.add(Finding{
			Severity: Warning, Object: object, What: "its last change is not rolled out",
			Remedy: Remedy{Text: "Wait for it:", Commands: []string{fmt.Sprintf("kubectl -n %s rollout status %s --timeout=2m", seen.Namespace, object)}},
		})
	}
	a.add(intolerant(seen, deployment, object)...)
	return a
}

// intolerant finds taints that new Nodes carry and the pods do not tolerate.
func intolerant(seen Seen, deployment *appsv1.Deployment, object string) []Finding {
	taints := []corev1.Taint{seen.Gate().Taint()}
	if inForce, err := seen.InForce(); err == nil {
		taints = append(taints, inForce.AllRegistrationTaints()...)
	}
	var refused []string
	for _, taint := range taints {
		tolerated := slices.ContainsFunc(deployment.Spec.Template.Spec.Tolerations, func(toleration corev1.Toleration) bool {
			return toleration.ToleratesTaint(logr.Discard(), &taint, false)
		})
		if !tolerated && taint.Effect != corev1.TaintEffectPreferNoSchedule {
			refused = append(refused, taint.ToString())
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Error, Object: object,
		What:   "its pods do not tolerate " + strings.Join(refused, ", ") + ": a cluster whose Nodes are all new does not recover by itself",
		Remedy: Remedy{Text: "Add it to the tolerations of its pods, in what nodekeep was installed from."},
	}}
}
