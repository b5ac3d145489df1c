package verify

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TCP is the address that a check connects to, as HOST:PORT.
// +kubebuilder:validation:MinLength=1
type TCP string

func (*TCP) kind() Kind {
	return Kind{"tcp", "a connection to the address opens", "`HOST:PORT`; IPv6 in brackets"}
}

func (t *TCP) compile(c *compiler, path *field.Path) { c.address(string(*t), path) }

func (t *TCP) needs() Needs { return Needs{Hosts: hostNames(string(*t))} }

func (t *TCP) answered() answer {
	return byWorker(func(worker Asker) error { return worker.TCP(t) })
}

// address checks HOST:PORT; an IPv6 address is in brackets.
func (c *compiler) address(text string, path *field.Path) {
	host, port, found := cutLast(text, ":")
	bare, opened := strings.CutPrefix(host, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	if !found || opened != closed || !opened && strings.Contains(host, ":") {
		c.invalid(path, text, "must be HOST:PORT; an IPv6 address is in brackets")
		return
	}
	c.host(bare, opened, text, path)
	c.port(port, text, path)
}

// host checks an address in brackets. Without brackets it is a name or an IPv4 address, which is a valid name, too.
func (c *compiler) host(host string, inBrackets bool, text string, path *field.Path) {
	if !inBrackets {
		c.invalidPart(path, text, "host", validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(host, "."))))
		return
	}
	for _, wrong := range validation.IsValidIP(path, host) {
		c.invalid(path, text, "host "+wrong.Detail)
	}
}

func (c *compiler) port(port, text string, path *field.Path) {
	number, err := strconv.Atoi(port)
	if err != nil || len(validation.IsValidPortNum(number)) > 0 {
		c.invalid(path, text, "port must be a number from 1 to 65535")
	}
}
