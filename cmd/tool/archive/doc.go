// Package archive is the file that holds all records of a cluster: what `export` writes and `import` reads.
//
// It is a stream of JSON objects: a head that says what it is, one object for each record, indented as it is stored, in the
// order of the ConfigMaps' names, and an end that says how many there are.
//
//	{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "RecordExport"}
//	{"record": {...}, "quarantined": {...}, "accepted": "old"}
//	{"end": {"records": 1}}
//
// Invariants:
//   - The same records make the same bytes, and a change of one record changes only its lines.
//   - A file that was cut off is never taken for a whole one.
//   - What is read is checked as strictly as the API server and nodekeep itself would, and all mistakes are told, each with its
//     line and Node.
//   - Reading and writing hold one record at a time.
package archive
