package doctor

import "fmt"

// reinstall puts back what the manifests hold.
func reinstall() Remedy {
	return Remedy{
		Text:     "Apply again what nodekeep was installed from (or run helm upgrade):",
		Commands: []string{"kubectl apply --server-side -f manifests/namespace.yaml -f manifests/nodekeep.yaml"},
	}
}

// reapply is for an object that was changed: the API server names a conflict with who has changed it.
func reapply() Remedy {
	remedy := reinstall()
	remedy.Text = "Apply again what nodekeep was installed from (or run helm upgrade). If kubectl reports a conflict, --force-conflicts sets the shipped values:"
	return remedy
}

// logs shows what a process says.
func logs(namespace, deployment string) string {
	return fmt.Sprintf("kubectl -n %s logs deployment/%s --tail=50", namespace, deployment)
}

// pods shows what becomes of the pods of a process.
func pods(namespace, component string) string {
	return fmt.Sprintf("kubectl -n %s describe pods -l %s,app.kubernetes.io/component=%s", namespace, PodSelector, component)
}

// first is for what cannot be told before something else is right.
func first(check string) Remedy { return Remedy{Text: "Correct first what " + check + " has found."} }
