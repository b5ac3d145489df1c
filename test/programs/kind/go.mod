// The types of kind's configuration, for a test of what docs/platforms.md says of it.
// A module of its own: nothing of it enters the product's go.mod.
module nodekeep.dev/nodekeep/test/programs/kind

go 1.26.0

require (
	go.yaml.in/yaml/v3 v3.0.4
	sigs.k8s.io/kind v0.33.0
)

require github.com/pkg/errors v0.9.1 // indirect
