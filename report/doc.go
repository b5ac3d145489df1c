// Package report adds up what a cluster's Nodes, records and workloads show about labels. It renders the result as tables, as CSV, and as
// one self-contained page of HTML. For what each number counts, see docs/report.md.
//
// A section of a report is a struct with JSON tags. Its own counter fills it, Node by Node. It makes its tables and charts from its own
// fields.
//
// Invariants:
//   - Pure: values in, values out; the time is a value, too.
//   - Nothing keeps an object of the API: a counter copies numbers and names. It holds a bounded number of entries, however many Nodes
//     there are, and counts the others.
//   - Every text from the cluster is untrusted. In HTML it is only ever the text of an element or the value of an attribute. The renderer
//     escapes both. In CSV no cell can be taken for a formula. In tables no character can move the cursor.
//   - The page needs no script, and nothing from elsewhere.
//   - A key that nothing selects on was "not seen in use"; no report says that it is unused.
package report
