package doctor

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// judgeRestoreWebhook says whether the API server is told to call the webhook for Nodes that register.
func judgeRestoreWebhook(seen Seen) answer {
	a := answer{ok: "called at the CREATE of Nodes, fails open"}
	want := wantedRestore()
	lacks(&a, mutatingObject, seen.Mutating)
	if seen.Mutating.Absent {
		a.add(Finding{Severity: Error, Object: mutatingObject, What: "it does not exist: " + want.without, Remedy: reinstall()})
	}
	if !seen.Mutating.Found {
		return a
	}
	hooks := seen.mutatingHooks()
	restore, at := named(hooks, restoreHook)
	if at < 0 {
		a.add(Finding{Severity: Error, Object: mutatingObject, What: "it has no webhook " + restoreHook + ": " + want.without, Remedy: reinstall()})
	} else {
		a.add(restore.judge(want, seen.Namespace)...)
	}
	protected, before := named(hooks, protectedHook)
	if before >= 0 {
		a.add(protected.judge(wantedProtected(), seen.Namespace)...)
	}
	if inForce, err := seen.InForce(); err == nil && inForce.RestoresInline() && (before < 0 || at >= 0 && before > at || !protected.again) {
		a.add(Finding{
			Severity: Warning, Object: mutatingObject,
			What:   fmt.Sprintf("the policy says protected: inline, and there is no webhook %s before %s with reinvocationPolicy %s: protected labels are deferred", protectedHook, restoreHook, admissionregistrationv1.IfNeededReinvocationPolicy),
			Remedy: Remedy{Text: "Install nodekeep with labels.protected inline, or say deferred in the policy."},
		})
	}
	return a
}

// judgeDeletionWebhook says whether the API server is told to call the webhook for Nodes that are deleted.
func judgeDeletionWebhook(seen Seen) answer {
	a := answer{ok: "called at the DELETE of Nodes, fails open"}
	want := wantedDeletion()
	lacks(&a, validatingObject, seen.Validating)
	missing := ""
	if seen.Validating.Absent {
		missing = "it does not exist: "
	}
	if seen.Validating.Found {
		deletion, at := named(seen.validatingHooks(), deletionHook)
		if at >= 0 {
			a.add(deletion.judge(want, seen.Namespace)...)
		} else {
			missing = "it has no webhook " + deletionHook + ": "
		}
	}
	if missing != "" {
		remedy := reinstall()
		remedy.Text = "If it is left out on purpose, --skip deletion-webhook. " + remedy.Text
		a.add(Finding{Severity: Warning, Object: validatingObject, What: missing + want.without, Remedy: remedy})
	}
	return a
}
