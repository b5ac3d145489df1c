package main

import (
	"testing"

	imagev1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func containerOf(security *cri.LinuxContainerSecurityContext) *cri.ContainerConfig {
	return &cri.ContainerConfig{Linux: &cri.LinuxContainerConfig{SecurityContext: security}}
}

// private returns what a kubelet asks for where the pod says nothing.
func private() *cri.LinuxContainerSecurityContext {
	return &cri.LinuxContainerSecurityContext{NamespaceOptions: &cri.NamespaceOption{
		Pid: cri.NamespaceMode_CONTAINER, UsernsOptions: &cri.UserNamespace{Mode: cri.NamespaceMode_NODE},
	}}
}

func TestAContainerIsWhatThePodSaysAndElseWhatTheImageSays(t *testing.T) {
	img := imagev1.ImageConfig{User: "65532:65532", Entrypoint: []string{"/nodekeep"}, Cmd: []string{"webhook"}}
	s, err := newSpec(containerOf(private()), img)
	require.NoError(t, err)
	assert.Equal(t, []string{"/nodekeep", "webhook"}, s.Args)
	assert.Equal(t, []int{65532, 65532}, []int{s.UID, s.GID})
	assert.Equal(t, "/", s.Cwd)
	assert.Equal(t, defaultCapabilities(), s.Capabilities)

	security := private()
	security.RunAsUser, security.ReadonlyRootfs, security.NoNewPrivs = &cri.Int64Value{Value: 7}, true, true
	security.SupplementalGroups = []int64{0, 9}
	security.Capabilities = &cri.Capability{DropCapabilities: []string{"ALL"}, AddCapabilities: []string{"NET_BIND_SERVICE"}}
	config := containerOf(security)
	config.Args = []string{"capture"}
	s, err = newSpec(config, img)
	require.NoError(t, err)
	assert.Equal(t, []string{"/nodekeep", "capture"}, s.Args, "arguments of the pod's replace those of the image alone")
	assert.Equal(t, []int{7, 0}, []int{s.UID, s.GID}, "the image's group is that of the image's user")
	assert.Equal(t, []int{0, 9}, s.Groups)
	assert.Equal(t, []string{"NET_BIND_SERVICE"}, s.Capabilities)
	assert.True(t, s.ReadOnlyRoot && s.NoNewPrivs)
}

func TestWhatIsNotServedIsRefusedWithAllItsReasons(t *testing.T) {
	security := private()
	security.Privileged = true
	security.NamespaceOptions.Pid = cri.NamespaceMode_NODE
	config := containerOf(security)
	config.Tty = true
	config.Mounts = []*cri.Mount{{ContainerPath: "/data", Propagation: cri.MountPropagation_PROPAGATION_BIDIRECTIONAL}}
	_, err := newSpec(config, imagev1.ImageConfig{Entrypoint: []string{"/nodekeep"}})
	for _, what := range []string{"privileged", "a terminal", "a shared process id namespace", "mount propagation at /data"} {
		require.ErrorContains(t, err, what)
	}
	_, err = newSpec(containerOf(private()), imagev1.ImageConfig{})
	require.ErrorContains(t, err, "neither pod nor image says what to run")
	_, err = newSpec(containerOf(private()), imagev1.ImageConfig{User: "nobody", Entrypoint: []string{"/nodekeep"}})
	require.ErrorContains(t, err, "a name needs a list of users")
}
