// Package fetch reads the sources of an inventory: a server over HTTPS, a file, or a ConfigMap.
//
// Invariants:
//   - One read is one request: no redirect is followed, nothing is retried, no connection is kept. Each request checks the certificate anew.
//   - A source is bounded in bytes, in time, and in the size of one value. Compressed answers are refused.
//   - An answer counts only if all of it was read and it is well-formed. An error never has a snapshot with it.
//   - What a source sends appears in errors only quoted and shortened.
package fetch
