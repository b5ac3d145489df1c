// Package proxy stands between one of nodekeep's processes and the API server, for tests, and misbehaves as the test asks. It answers errors, hangs,
// cuts answers short, or holds a request until a test releases it.
//
// Invariants:
//   - The identity stays the caller's: only the address and the authority of the certificate differ.
//   - Without a fault every byte passes unchanged, watches included.
//   - It listens on loopback, on a free port.
package proxy
