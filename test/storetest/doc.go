// Package storetest says what every store of records must promise, as tests, and has one in memory for the tests of other packages.
//
// [Contract] runs against any [Store]; [ConfigMaps] makes one of the records in a cluster, be it the fake client or a
// real API server.
//
// Invariants:
//   - Reads from memory may lag behind what another client did, so those are waited for; what a store wrote itself it
//     must see at once, and a write must never win over a newer one.
//   - Each test keeps to a Node name of its own and cleans up, so the contract can run in a namespace that is in use.
package storetest
