// Package chart holds the tests of the Helm chart: what it renders from which values, that the real API server takes all of it, that the
// program takes its flags, and that installing, upgrading and uninstalling a release lose nothing.
package chart
