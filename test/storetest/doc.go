// Package storetest tests what every store of records must promise. It also has a store in memory for the tests of other packages.
//
// [Contract] runs against any [Store]. [ConfigMaps] makes one of the records in a cluster, with the fake client or a real API server.
//
// Invariants:
//   - Reads from memory may lag behind another client's writes, so tests wait for those. A store must see its own writes at once, and a write must
//     never win over a newer one.
//   - Each test uses a Node name of its own and cleans up. So the contract can run in a namespace that is in use.
package storetest
