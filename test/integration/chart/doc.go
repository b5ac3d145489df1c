// Package chart tests the Helm chart. It tests what the chart renders from which values. The real API server must accept the objects, and the program
// its flags. Installing, upgrading and uninstalling a release must lose nothing.
package chart
