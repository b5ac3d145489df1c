// Package oracle says what a record may remember of a key, given what happened to the Nodes of one name and which states were observed.
// The model checker (test/simulation) and the simulation (capture) ask it. It never looks at a record, and shares no code with the product.
package oracle
