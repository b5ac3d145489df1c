// Package examine reads an installation of nodekeep for package [nodekeep.dev/nodekeep/cli/doctor], which judges it.
//
// It reads in rounds: each round asks for what depends on the rounds before it. A read belongs to the checks that need it, and is left out if all of
// them are skipped.
//
// Invariants:
//   - Nothing is changed. The Nodes that it creates are dry runs, which the API server does not store.
//   - What cannot be read does not end an examination: it is part of what is seen, with the reason and a remedy. Only an API server that cannot be
//     reached, or that does not know the caller, ends it.
//   - Each read has a time limit.
//   - Of the Secret that holds the certificate, no private key is kept.
package examine
