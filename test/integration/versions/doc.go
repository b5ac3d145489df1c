// Package versions compares README's table of Kubernetes versions with the control plane that runs: today's, or with
// `make test-versions` the oldest that is supported and the newest.
package versions
