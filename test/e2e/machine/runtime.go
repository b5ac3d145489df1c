package main

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"
)

// templates are the configurations of containerd and of the network of its pods.
//
//go:embed containerd.toml pods.conflist
var templates embed.FS

// runtimeSettings are what the templates need.
type runtimeSettings struct {
	Folder, Socket          string
	Pods, First, Gateway    string
	Plugins, Configurations string
}

// pluginFolders are where distributions install CNI plugins: Debian, then most others.
var pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// runContainerd becomes containerd.
func runContainerd(args []string) error {
	flags := flag.NewFlagSet(runtimeName, flag.ExitOnError)
	folder := flags.String("folder", "", "a folder below /run, on whose file system of its own all that the runtime writes is kept")
	socket := flags.String("socket", "", "the socket to serve on")
	address := flags.String("network", "10.244.0.1/24", "the kubelet's address, and the range of its pods, in its upper half; IPv4")
	if err := flags.Parse(args); err != nil {
		return err
	}
	prefix, err := netip.ParsePrefix(*address)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() != 24 {
		return fmt.Errorf("read --network: %q is no IPv4 address of a /24", *address)
	}
	program, err := exec.LookPath("containerd")
	if err != nil {
		return fmt.Errorf("find containerd: %w", err)
	}
	// runc puts containers next to its own cgroup, so all of them are in the one named after the folder.
	if err := enterCgroup(filepath.Join(cgroupFolder, filepath.Base(*folder), "runtime")); err != nil {
		return err
	}
	if err := ownFiles(*folder); err != nil {
		return err
	}
	if err := addAddress(netip.PrefixFrom(prefix.Addr(), 32)); err != nil {
		return err
	}
	configuration, err := configure(*folder, *socket, prefix)
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", program, unix.Exec(program, []string{program, "--config", configuration}, os.Environ()))
}

// ownFiles mounts an empty file system on a folder, unless the runtime ran there before: a machine that boots has its disk.
func ownFiles(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "root")); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make folder of runtime: %w", err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount files of runtime: %w", err)
	}
	for _, name := range []string{"root", "state", "net.d"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			return fmt.Errorf("make folder of runtime: %w", err)
		}
	}
	return nil
}

// configure writes the configurations, and returns the path of containerd's.
func configure(folder, socket string, prefix netip.Prefix) (string, error) {
	plugins, err := cniPlugins()
	if err != nil {
		return "", err
	}
	settings := runtimeSettings{
		Folder: folder, Socket: socket, Plugins: plugins, Configurations: filepath.Join(folder, "net.d"),
		Pods: prefix.Masked().String(), First: podRange(prefix).Addr().String(), Gateway: prefix.Addr().String(),
	}
	written := filepath.Join(folder, "containerd.toml")
	for name, path := range map[string]string{"containerd.toml": written, "pods.conflist": filepath.Join(settings.Configurations, "pods.conflist")} {
		parsed, err := template.ParseFS(templates, name)
		if err != nil {
			return "", err
		}
		var content bytes.Buffer
		if err := parsed.Execute(&content, settings); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
			return "", fmt.Errorf("write configuration: %w", err)
		}
	}
	return written, nil
}

// podRange returns the upper half of a /24: the addresses of pods. The lower half has the kubelet's.
func podRange(prefix netip.Prefix) netip.Prefix {
	address := prefix.Masked().Addr().As4()
	address[3] = 128
	return netip.PrefixFrom(netip.AddrFrom4(address), 25)
}

func cniPlugins() (string, error) {
	for _, folder := range pluginFolders {
		if _, err := os.Stat(filepath.Join(folder, "ptp")); !errors.Is(err, fs.ErrNotExist) {
			return folder, err
		}
	}
	return "", fmt.Errorf("find the CNI plugin ptp: it is in none of %s", strings.Join(pluginFolders, ", "))
}
