// Package release builds a release twice (`make release`) and compares both. Then it uses one of them alone, without the repository.
// It installs nodekeep on a control plane, from the chart and from the static manifests. It checks and uninstalls it with the release's own
// command. NODEKEEP_RELEASE_PLATFORMS names the platforms of the command, if not all are to be built.
package release
