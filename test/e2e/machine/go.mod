// The machine that a real kubelet runs on in tests. A module of its own: what it needs (gRPC, the APIs of container runtimes and device
// plugins, netlink) is not for the product's go.mod.
module nodekeep.dev/nodekeep/test/e2e/machine

go 1.26.0

require (
	github.com/miekg/dns v1.1.73
	github.com/stretchr/testify v1.12.1
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.48.0
	google.golang.org/grpc v1.79.3
	k8s.io/cri-api v0.36.3
	k8s.io/kubelet v0.36.3
)

require (
	github.com/vishvananda/netns v0.0.5 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260128011058-8636f8732409 // indirect
	google.golang.org/protobuf v1.36.12-0.20260120151049-f2248ac996af // indirect
)
