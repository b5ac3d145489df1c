// Package release builds a release twice (`make release`), compares both, and uses one of them alone, without the repository: it
// installs nodekeep on a control plane from the chart and from the static manifests, checks it, and uninstalls it, with the release's
// own command. NODEKEEP_RELEASE_PLATFORMS names the platforms of the command, if not all are to be built.
package release
