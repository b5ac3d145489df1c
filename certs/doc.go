// Package certs provides the serving certificate of the webhook, from one of two sources with the same method set:
//
//   - [Dir] serves tls.crt and tls.key of a directory, such as a mounted Secret of cert-manager.
//   - [SelfSigned] needs nothing else in the cluster: it keeps a CA and a serving certificate in a Secret, and the caBundle of
//     the webhook configurations in step with them. Every replica runs it; there is no leader.
//
// The Secret of SelfSigned holds ca.crt (the bundle: the CA first, then whatever else is still trusted), ca.key, tls.crt, tls.key,
// and while a CA is being replaced next-ca.crt, next-ca.key and next-ca.published. To ask for
// a new CA at once.
//
// Invariants:
//
//   - Nothing is signed by a new CA before the webhook configurations have held it for the grace period, so that no API server
//     meets a certificate that it cannot verify yet. Only a CA that is lost or expired is replaced without that wait.
//   - A CA that was replaced stays in the bundle until it expires: a replica that has not looked for a while still serves a
//     certificate that verifies.
//   - Every write carries the resourceVersion it was decided on; a conflict means read and decide again. The configurations are
//     read before the Secret, so that a bundle out of an older Secret can never overwrite one out of a newer Secret.
//   - Nothing is written when nothing changed, and never anything but the keys above and the fields clientConfig.caBundle.
//   - A certificate that is loaded is served whatever becomes of the API server, the Secret or the directory.
//   - Private keys leave memory for the Secret only. They are not logged, and no error holds any of their bytes.
//
// served.go is what both sources have in common. Files that decide (decide.go, names.go, patch.go, secret.go, state.go) know no context,
// clock, client or logger. Of the others, issue.go and renew.go make keys and certificates, sync.go and configurations.go talk to the API
// server.
package certs
