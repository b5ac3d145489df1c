// Package release builds a release twice (`make release`) and compares both. Then it uses one of them alone, without the repository.
// It installs nodekeep on a control plane, from the static manifests, and from a registry that the image and the chart were pushed to. It checks
// nodekeep with the release's own command, upgrades it to a later build, and uninstalls it. It signs a release with a key of its own, and runs the
// commands that SECURITY.md has to verify it. NODEKEEP_RELEASE_PLATFORMS names the platforms of the command, if not all are to be built; linux/amd64
// and linux/arm64 must be among them.
package release
