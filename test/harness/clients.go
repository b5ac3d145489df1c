package harness

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tokenSeconds is the life of a ServiceAccount's token: a day, for clusters that are left up.
const tokenSeconds int64 = 24 * 60 * 60

// Admin returns the config of a client that may do everything: group system:masters. Like all configs here it has no rate
// limit on the client's side.
func (c *Cluster) Admin() *rest.Config {
	config := c.clientConfig("kubernetes-admin", "system:masters")
	config.UserAgent = "admin/nodekeep-test"
	return config
}

// Kubelet returns the config of the kubelet of a Node, whether that Node exists or not. The user is system:node:NAME in group system:nodes, which the Node
// authorizer and NodeRestriction confine to that one Node. The manager in metadata.managedFields is "kubelet". It panics if the name is not valid
// UTF-8, which no certificate can hold.
func (c *Cluster) Kubelet(node string) *rest.Config {
	config := c.clientConfig("system:node:"+node, "system:nodes")
	config.UserAgent = "kubelet/nodekeep-test"
	return config
}

// ServiceAccount returns the config of a client with a token of an existing ServiceAccount, valid for a day. It has no client certificate. It may do what
// the manifests grant to that ServiceAccount.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	seconds := tokenSeconds
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.anonymousConfig()
	config.BearerToken = token.Status.Token
	return config, nil
}

// clientConfig returns that of a user with a client certificate.
func (c *Cluster) clientConfig(user string, groups ...string) *rest.Config {
	cert, key, err := c.ca.Client(user, groups...)
	if err != nil {
		panic(err) // only a name that no certificate can hold gets here
	}
	config := c.anonymousConfig()
	config.CertData, config.KeyData = cert, key
	return config
}

func (c *Cluster) anonymousConfig() *rest.Config {
	return &rest.Config{
		Host:            c.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.PEM},
		QPS:             -1,
	}
}
