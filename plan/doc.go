// Package plan decides what a Node should get: [ForCreate] for a Node in its CREATE, [ForLive] for one that is there. A record
// restores items, and rules for labels set and remove them. Taints follow from labels. The gate is closed or lifted.
//
// A plan is a list of edits with their causes, and the annotations that follow from them. The webhook makes a JSON patch of it, capture a merge
// patch. Commands show it.
//
// All of the package is a function of values.
package plan
