// Package impact decides what a policy means for the cluster that is there. It finds in which fields two policies differ, and which facts that rules
// ask for no Node has. It also finds what keeps Nodes from passing checks. It is pure: commands and doctor read the cluster.
package impact
