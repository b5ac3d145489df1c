// Package recipes runs what docs/platforms.md and docs/labels-in-git.md say for other projects: their real kinds on a real API server, and what their
// controllers and kubelets do, with their identities. Their controllers do not run.
package recipes
