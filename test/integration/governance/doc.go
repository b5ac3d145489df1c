// Package governance tests the admission policies on a real API server: what they deny, warn about and audit. It also tests that capture
// reports and taints Nodes whose labels break a rule.
package governance
