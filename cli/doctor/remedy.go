package doctor

import "fmt"

func advice(text string, commands ...string) Remedy { return Remedy{Text: text, Commands: commands} }

// reinstall puts back what the manifests hold.
func reinstall() Remedy {
	return advice("Apply again what nodekeep was installed from (or run helm upgrade):",
		"kubectl apply --server-side -f manifests/namespace.yaml -f manifests/crd.yaml", "kubectl apply --server-side -f manifests/nodekeep.yaml")
}

// reapply is for an object that was changed: the API server names a conflict with who has changed it.
func reapply() Remedy {
	return advice("Apply again what nodekeep was installed from (or run helm upgrade). If kubectl reports a conflict, --force-conflicts sets the shipped values:",
		reinstall().Commands...)
}

// first is for what cannot be told before something else is right.
func first(check string) Remedy { return advice("Correct first what " + check + " has found.") }

// kubectl is a command in the release namespace.
func (s Seen) kubectl(command string, args ...any) string {
	return "kubectl -n " + s.Namespace + " " + fmt.Sprintf(command, args...)
}

// logs shows what a process says.
func (s Seen) logs(deployment string) string {
	return s.kubectl("logs deployment/%s --tail=50", deployment)
}

// pods shows what becomes of the pods of a process.
func (s Seen) pods(component string) string {
	return s.kubectl("describe pods -l %s,%s=%s", PodSelector, ComponentLabel, component)
}
