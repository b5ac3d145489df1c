package local

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/test/harness"
)

// kubeletBinary is the name of the program.
const kubeletBinary = "kubelet"

// Kubelet is a real kubelet and its container runtime. The containers run on while the kubelet is stopped, as on any machine.
type Kubelet struct {
	// Name is that of its Node.
	Name string

	cluster *Cluster
	address string
	folder  string
	socket  string
}

// Process is the name of the kubelet's process and log.
func (k *Kubelet) Process() string { return kubeletBinary + "-" + k.Name }

// StopContainers stops the container runtime and all containers, as if the machine were switched off.
func (k *Kubelet) StopContainers() error {
	return k.cluster.Control.Process(k.runtime()).Stop()
}

func (k *Kubelet) runtime() string { return "runtime-" + k.Name }

// StartContainers starts the container runtime, without any containers, and waits until it can be called.
func (k *Kubelet) StartContainers(ctx context.Context) error {
	built, err := isolated()
	if err != nil {
		return err
	}
	process, err := k.cluster.Control.Go(k.runtime(), filepath.Join(built, machineFile), []string{
		"runtime",
		"--socket=" + k.socket,
		"--image=" + filepath.Join(built, imageFolder, "oci"),
		"--image-name=" + Image,
		"--state=" + filepath.Join(k.folder, "containers"),
		"--faults=" + k.faults(),
		"--bridge=" + k.Name,
		"--network=" + k.address + "/24",
	})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		select {
		case <-process.Exited():
			log, _ := os.ReadFile(process.LogPath())
			return false, fmt.Errorf("it ended: %s", log)
		default:
		}
		_, err := os.Stat(k.socket)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for container runtime: %w", err)
	}
	return nil
}

// StartDevices starts a device plugin that offers count devices of a resource to the newest kubelet. All kubelets of this machine have their sockets
// in one folder.
func (k *Kubelet) StartDevices(resource string, count int) error {
	built, err := isolated()
	if err != nil {
		return err
	}
	_, err = k.cluster.Control.Go(k.devices(), filepath.Join(built, machineFile), []string{"devices", "--resource=" + resource, fmt.Sprintf("--count=%d", count)})
	return err
}

// StopDevices stops the device plugin.
func (k *Kubelet) StopDevices() error { return k.cluster.Control.Process(k.devices()).Stop() }

func (k *Kubelet) devices() string { return "devices-" + k.Name }

//go:embed kubelet.yaml
var configuration string

// configure writes the kubelet's configuration.
func (k *Kubelet) configure(file string) error {
	var content bytes.Buffer
	err := template.Must(template.New("kubelet.yaml").Parse(configuration)).Execute(&content, map[string]string{
		"Socket": k.socket, "Folder": k.folder, "Address": k.address, "Logs": filepath.Join(k.cluster.Control.Dir(), "logs", "pods-"+k.Name),
		"DNS": clusterDNS, "Domain": clusterDomain,
	})
	if err != nil {
		return fmt.Errorf("write configuration of kubelet: %w", err)
	}
	if err := os.WriteFile(file, content.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write configuration of kubelet: %w", err)
	}
	return nil
}

// Start starts the kubelet with further arguments. It returns at once; the Node registers by itself.
func (k *Kubelet) Start(args ...string) error {
	file, kubeconfig := filepath.Join(k.folder, "kubelet.yaml"), filepath.Join(k.folder, "kubeconfig")
	if err := k.configure(file); err != nil {
		return err
	}
	if err := harness.WriteKubeconfig(kubeconfig, k.cluster.Control.Kubelet(k.Name)); err != nil {
		return err
	}
	_, err := k.cluster.Control.Go(k.Process(), harness.Binary(kubeletBinary), append([]string{
		"--config=" + file,
		"--kubeconfig=" + kubeconfig,
		"--root-dir=" + k.folder,
		"--cert-dir=" + filepath.Join(k.folder, "pki"),
		"--hostname-override=" + k.Name,
		"--node-ip=" + k.address,
		"--v=2",
	}, args...))
	return err
}

// Stop stops the kubelet and leaves its containers running.
func (k *Kubelet) Stop() error {
	if process := k.cluster.Control.Process(k.Process()); process != nil {
		return process.Stop()
	}
	return nil
}

// WaitReady waits until the kubelet reports that its Node is ready for pods.
func (k *Kubelet) WaitReady(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-k.cluster.Control.Process(k.Process()).Exited():
			return false, errors.New("it ended")
		default:
		}
		node, err := k.cluster.Admin.CoreV1().Nodes().Get(ctx, k.Name, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for kubelet of %s: %w; its log is %s", k.Name, err, k.cluster.Control.LogPath(k.Process()))
	}
	return nil
}
