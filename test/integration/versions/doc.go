// Package versions compares README's table of Kubernetes versions with the control plane that runs. This is today's, or with `make test-versions` the
// oldest supported and the newest.
package versions
