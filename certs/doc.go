// Package certs provides the serving certificate of the webhook, from one of two sources with the same method set:
//
//   - [Dir] serves tls.crt and tls.key of a directory, such as a mounted Secret of cert-manager.
//   - [SelfSigned] needs nothing else in the cluster. It keeps a CA and a serving certificate in a Secret. The caBundle of the webhook
//     configurations follows the Secret. Every replica runs it; there is no leader.
//
// The Secret of SelfSigned holds ca.crt, ca.key, tls.crt and tls.key. In ca.crt is the bundle: the CA first, then all other trusted CAs.
// While a CA is being replaced, the Secret also holds next-ca.crt, next-ca.key and next-ca.published. To ask for a new CA at once, empty
// the Secret.
//
// Invariants:
//
//   - A new CA signs nothing before the webhook configurations have held it for the grace period. So no API server meets a certificate that
//     it cannot verify yet. Only a CA that is lost or expired is replaced without that wait.
//   - A replaced CA stays in the bundle until it expires. So a replica that has not read the Secret for a while still serves a certificate
//     that verifies.
//   - Every write carries the resourceVersion it was decided on; a conflict means read and decide again. The configurations are read before
//     the Secret. So a bundle of an older Secret can never overwrite a bundle of a newer Secret.
//   - Nothing is written when nothing changed, and never anything but the keys above and the fields clientConfig.caBundle.
//   - A loaded certificate is served, whatever happens to the API server, the Secret or the directory.
//   - Private keys leave memory for the Secret only. They are not logged, and no error holds any of their bytes.
//
// The file served.go is what both sources have in common. Files that decide know no context, clock, client or logger: decide.go, names.go,
// patch.go, secret.go and state.go. Of the other files, issue.go and renew.go make keys and certificates. The files sync.go and
// configurations.go talk to the API server.
package certs
