// Package oracle decides what a record may hold of a key. Its input is what happened to the Nodes of one name, and which states were observed. The
// model checker (test/simulation) and the simulation (capture) ask it. It never reads a record, and shares no code with the product.
package oracle
