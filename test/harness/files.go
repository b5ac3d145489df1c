package harness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// What a cluster's Dir holds, besides the pid file and the marker.
const (
	dataDir  = "etcd"
	logsDir  = "logs"
	certsDir = "certs"
	flexDir  = "flexvolume"
	urlFile  = "url"

	caCertFile      = certsDir + "/ca.crt"
	caKeyFile       = certsDir + "/ca.key"
	servingCertFile = certsDir + "/kube-apiserver.crt"
	servingKeyFile  = certsDir + "/kube-apiserver.key"
	tokenKeyFile    = certsDir + "/serviceaccount.key"
)

// serviceIPs is the range of Service addresses, and its first one, which is that of Service kubernetes.
const (
	serviceIPs     = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1"
)

// writeCerts writes what the processes read: the authority, the API server's certificate, and the signing key of ServiceAccount tokens.
func (a *Authority) writeCerts(dir string) error {
	cert, key, err := a.Server(
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		[]net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(firstServiceIP)}, time.Time{})
	if err != nil {
		return err
	}
	tokenKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("generate key of tokens: %w", err)
	}
	for name, data := range map[string][]byte{
		caCertFile:      a.PEM,
		caKeyFile:       a.keyPEM,
		servingCertFile: cert,
		servingKeyFile:  key,
		tokenKeyFile:    tokenKey,
	} {
		if err := writeFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file at once, readable by its owner only, whatever was there before.
func writeFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
