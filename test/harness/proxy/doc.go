// Package proxy stands between one of nodekeep's processes and the API server, for tests, and misbehaves as the test asks: it
// answers errors, hangs, cuts answers short, holds a request until a test lets it go.
//
// Invariants:
//   - The identity stays the caller's: only the address and the authority of the certificate differ.
//   - Without a fault every byte goes through as it is, watches included.
//   - It listens on loopback, on a free port.
package proxy
