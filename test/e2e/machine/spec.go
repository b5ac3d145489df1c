package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	imagev1 "github.com/opencontainers/image-spec/specs-go/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// spec is all that a container's first process needs to know to become the container's program.
type spec struct {
	Lower string // the image's files
	Dir   string // a folder of the container's own

	Args []string
	Env  []string
	Cwd  string

	UID    int
	GID    int
	Groups []int
	// Capabilities without CAP_; those that are not named are dropped for good.
	Capabilities []string
	NoNewPrivs   bool
	ReadOnlyRoot bool

	Mounts        []mount
	MaskedPaths   []string
	ReadOnlyPaths []string
}

type mount struct {
	From, At string
	ReadOnly bool
}

// defaultCapabilities returns those of a container whose pod says nothing, as containerd has them.
func defaultCapabilities() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID",
		"SETPCAP", "SETUID", "SYS_CHROOT",
	}
}

// newSpec returns the description of a container, from the kubelet's request and the image.
func newSpec(config *cri.ContainerConfig, img imagev1.ImageConfig) (*spec, error) {
	security := config.GetLinux().GetSecurityContext()
	if err := refuse(config, security); err != nil {
		return nil, err
	}
	s := &spec{
		Args:          argsOf(config, img),
		Cwd:           config.GetWorkingDir(),
		NoNewPrivs:    security.GetNoNewPrivs(),
		ReadOnlyRoot:  security.GetReadonlyRootfs(),
		MaskedPaths:   security.GetMaskedPaths(),
		ReadOnlyPaths: security.GetReadonlyPaths(),
		Capabilities:  capabilities(security.GetCapabilities()),
	}
	if len(s.Args) == 0 {
		return nil, errors.New("neither pod nor image says what to run")
	}
	if s.Cwd == "" {
		s.Cwd = img.WorkingDir
	}
	if s.Cwd == "" {
		s.Cwd = "/"
	}
	if err := s.identity(security, img.User); err != nil {
		return nil, err
	}
	s.environment(config, img)
	for _, m := range config.GetMounts() {
		s.Mounts = append(s.Mounts, mount{From: m.GetHostPath(), At: m.GetContainerPath(), ReadOnly: m.GetReadonly()})
	}
	return s, nil
}

// refuse names all that is asked for and not served.
func refuse(config *cri.ContainerConfig, security *cri.LinuxContainerSecurityContext) error {
	var err error
	no := func(asked bool, what string) {
		if asked {
			err = errors.Join(err, errors.New(what+": not served here"))
		}
	}
	no(security.GetPrivileged(), "privileged")
	no(len(config.GetDevices())+len(config.GetCDIDevices()) > 0, "devices")
	no(config.GetTty() || config.GetStdin(), "a terminal or standard input")
	no(security.GetRunAsUsername() != "", "a user by name")
	no(security.GetNamespaceOptions().GetPid() != cri.NamespaceMode_CONTAINER, "a shared process id namespace")
	no(security.GetNamespaceOptions().GetIpc() == cri.NamespaceMode_NODE, "the host's IPC namespace")
	users := security.GetNamespaceOptions().GetUsernsOptions() // none from kubelets to which user namespaces are no feature yet
	no(users != nil && users.GetMode() == cri.NamespaceMode_POD, "a user namespace")
	for _, m := range config.GetMounts() {
		no(m.GetPropagation() != cri.MountPropagation_PROPAGATION_PRIVATE, "mount propagation at "+m.GetContainerPath())
		no(m.GetImage().GetImage() != "", "an image as a volume at "+m.GetContainerPath())
		no(m.GetRecursiveReadOnly(), "a recursively read-only mount at "+m.GetContainerPath())
	}
	return err
}

// argsOf returns the command line: a command of the pod's replaces the image's entrypoint and its arguments.
func argsOf(config *cri.ContainerConfig, img imagev1.ImageConfig) []string {
	command, args := config.GetCommand(), config.GetArgs()
	if len(command) == 0 {
		command = img.Entrypoint
		if len(args) == 0 {
			args = img.Cmd
		}
	}
	return slices.Concat(command, args)
}

func (s *spec) environment(config *cri.ContainerConfig, img imagev1.ImageConfig) {
	s.Env = slices.Clone(img.Env)
	if !slices.ContainsFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		s.Env = append(s.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	for _, e := range config.GetEnvs() {
		s.Env = append(s.Env, e.GetKey()+"="+string(e.GetValue()))
	}
}

// identity returns what the pod says, or else the image; an image may say it with numbers only.
func (s *spec) identity(security *cri.LinuxContainerSecurityContext, imageUser string) error {
	if user := security.GetRunAsUser(); user != nil {
		s.UID = int(user.GetValue())
	} else if imageUser != "" {
		user, group, _ := strings.Cut(imageUser, ":")
		var userErr, groupErr error
		s.UID, userErr = strconv.Atoi(user)
		s.GID, groupErr = strconv.Atoi(cmp.Or(group, "0"))
		if err := errors.Join(userErr, groupErr); err != nil {
			return fmt.Errorf("user of image: %w: a name needs a list of users, which is not read here", err)
		}
	}
	if group := security.GetRunAsGroup(); group != nil {
		s.GID = int(group.GetValue())
	}
	s.Groups = []int{s.GID}
	for _, group := range security.GetSupplementalGroups() {
		if !slices.Contains(s.Groups, int(group)) {
			s.Groups = append(s.Groups, int(group))
		}
	}
	return nil
}

func capabilities(wanted *cri.Capability) []string {
	list := defaultCapabilities()
	if slices.Contains(wanted.GetDropCapabilities(), "ALL") {
		list = nil
	}
	list = slices.DeleteFunc(list, func(c string) bool { return slices.Contains(wanted.GetDropCapabilities(), c) })
	for _, c := range wanted.GetAddCapabilities() {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}
