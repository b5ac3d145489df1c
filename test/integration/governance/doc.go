// Package governance shows, on a real API server, what the generated admission policies deny, warn about and audit, and that capture reports and
// taints Nodes whose labels break a rule.
package governance
