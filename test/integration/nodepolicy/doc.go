// Package nodepolicy tests the NodePolicy on a real API server, with the rights of the shipped ServiceAccounts. It tests how a change reaches the
// processes, and which policies are refused where they are applied. A policy that vanishes changes nothing.
package nodepolicy
