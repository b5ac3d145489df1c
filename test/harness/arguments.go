package harness

import (
	"os"
	"path/filepath"
)

// lessGC returns an environment in which a program collects its garbage less often. Tests have memory to spare, and wait for CPUs.
func lessGC() []string {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return []string{"GOGC=300"}
}

func etcdArgs(dir string, p ports) []string {
	// Nothing but its only member, itself, ever speaks to the peer address: any port will do.
	const peer = "http://127.0.0.1:0"
	return []string{
		"--data-dir=" + filepath.Join(dir, dataDir),
		"--listen-client-urls=" + p.etcdURL(),
		"--advertise-client-urls=" + p.etcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", // the data need not survive the machine
		"--quota-backend-bytes=8589934592",
	}
}

func apiServerArgs(dir string, p ports) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	const issuer = "https://kubernetes.default.svc.cluster.local"
	return []string{
		"--etcd-servers=" + p.etcdURL(),
		"--bind-address=127.0.0.1",
		"--secure-port=" + p.apiServer,
		"--tls-cert-file=" + file(servingCertFile),
		"--tls-private-key-file=" + file(servingKeyFile),
		"--client-ca-file=" + file(caCertFile),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=" + issuer,
		"--service-account-signing-key-file=" + file(tokenKeyFile),
		"--service-account-key-file=" + file(tokenKeyFile),
		"--service-cluster-ip-range=" + serviceIPs,
		// A loopback address is no valid endpoint of Service kubernetes, so none is published.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		// Without it an open watch holds up the shutdown for a minute.
		"--shutdown-watch-termination-grace-period=1s",
		"--allow-privileged",
		"--profiling=false",
	}
}

func schedulerArgs(_, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0", // listens nowhere
	}
}

func controllerManagerArgs(dir, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0", // listens nowhere
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + filepath.Join(dir, tokenKeyFile),
		"--root-ca-file=" + filepath.Join(dir, caCertFile),
		// It makes this folder, by default outside of ours.
		"--flex-volume-plugin-dir=" + filepath.Join(dir, flexDir),
		// The defaults hold up the start of its controllers, each of which asks for a token.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}
