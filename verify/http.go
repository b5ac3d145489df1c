package verify

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// HTTP asks a URL. The certificate of https is verified with CA, or with the roots of the worker's image.
type HTTP struct {
	// The URL.
	// +required
	// +kubebuilder:validation:Pattern=`^https?://`
	URL string `json:"url"`
	// The status that it must have; 200 by default.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=599
	Status *int `json:"status,omitempty"`
	// Certificates of authorities, as PEM.
	CA string `json:"ca,omitempty"`
}

func (*HTTP) kind() Kind {
	return Kind{
		"http", "`url` answers with `status` (200)",
		"certificates are verified with `ca` (PEM), or with the image's roots. Redirects are not followed",
	}
}

func (h *HTTP) compile(c *compiler, path *field.Path) {
	c.url(h.URL, path.Child("url"))
	h.Status = new(c.number(h.Status, 200, 100, 599, path.Child("status")))
	if h.CA != "" {
		if !strings.HasPrefix(h.URL, "https:") {
			c.errs = append(c.errs, field.Forbidden(path.Child("ca"), "only an https URL has a certificate to verify"))
		}
		if problem := certificates(h.CA); problem != "" {
			c.invalid(path.Child("ca"), cut(h.CA, maxShown), problem)
		}
	}
}

func (h *HTTP) needs() Needs {
	target, err := url.Parse(h.URL)
	if err != nil {
		return Needs{}
	}
	return Needs{Hosts: hostNames(target.Host)}
}

func (h *HTTP) answered() answer {
	return byWorker(func(worker Asker) error { return worker.HTTP(h) })
}

func (c *compiler) url(text string, path *field.Path) {
	if text == "" {
		c.required(path, "as https://HOST/PATH or http://HOST/PATH")
		return
	}
	parsed, err := url.Parse(text)
	shown := withoutUser(text)
	if err != nil {
		c.invalid(path, shown, "must be a URL, https://HOST/PATH or http://HOST/PATH")
		return
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" {
		c.invalid(path, shown, "must begin with https:// or http://")
		return
	}
	if parsed.User != nil {
		c.invalid(path, shown, "must have no user or password: the policy is no place for secrets")
	}
	if parsed.Fragment != "" {
		c.invalid(path, shown, "must have no fragment: it is not sent")
	}
	if host := parsed.Hostname(); host == "" {
		c.invalid(path, shown, "must name a host")
	} else {
		c.host(host, strings.Contains(host, ":"), shown, path)
	}
	if port := parsed.Port(); port != "" {
		c.port(port, shown, path)
	}
}

// user is what stands before the host of a URL, if it is one at all.
var user = regexp.MustCompile(`(?s)^(.*?://)?[^/?#]*@`)

// withoutUser returns a URL for error messages: a password must not get into logs.
func withoutUser(text string) string { return cut(user.ReplaceAllString(text, "${1}...@"), maxShown) }

// maxShown bounds, in bytes, what an error shows of a text that may be long.
const maxShown = 80

// certificates reports what is wrong with a bundle of certificates; empty: nothing.
func certificates(bundle string) (problem string) {
	rest, count := []byte(bundle), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return "has a PEM block that is no CERTIFICATE: " + block.Type
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "has a certificate that cannot be read: " + err.Error()
		}
		count++
	}
	if count == 0 {
		return "must be certificates in PEM"
	}
	if strings.TrimSpace(string(rest)) != "" {
		return "has something behind the last certificate that is no PEM"
	}
	return ""
}
