// Package report adds up what a cluster's Nodes, records and workloads show about labels, and renders it: as tables, CSV, and one
// self-contained page of HTML. docs/report.md describes what each number counts.
//
// A section of a report is a struct with JSON tags. It is filled by a counter of its own, Node by Node, and makes its tables and charts
// from its own fields.
//
// Invariants:
//   - Pure: values in, values out; the time is a value, too.
//   - Nothing keeps an object of the API: a counter copies numbers and names. What it holds is bounded, however many Nodes there are;
//     what is left out is counted.
//   - Every text from the cluster is untrusted. In HTML it is only ever the text of an element or the value of an attribute, which the
//     renderer escapes. In CSV no cell can be taken for a formula. In tables no character can move the cursor.
//   - The page needs no script, and nothing from elsewhere.
//   - A key that nothing selects on was "not seen in use"; no report says that it is unused.
package report
