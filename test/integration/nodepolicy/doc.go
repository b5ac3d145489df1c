// Package nodepolicy tests the NodePolicy on a real API server, with the rights of the shipped ServiceAccounts. It tests how a change reaches the
// processes, which policies are refused where they are applied, and that a policy which vanishes changes nothing.
package nodepolicy
