package verify

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/quantity"
)

// Kinds are the names of all kinds of checks: those of the fields of [Check].
func Kinds() []string {
	return []string{"dns", "api", "service", "tcp", "http", "container", "kubelet"}
}

// kinds are those of a check that are given.
func (c Check) kinds() (given []string) {
	for i, is := range []bool{c.DNS != nil, c.API != nil, c.Service != nil, c.TCP != nil, c.HTTP != nil, c.Container != nil, c.Kubelet != nil} {
		if is {
			given = append(given, Kinds()[i])
		}
	}
	return given
}

// Kind is what kind of check it is; empty where none is given.
func (c Check) Kind() string {
	if given := c.kinds(); len(given) > 0 {
		return given[0]
	}
	return ""
}

// IsRequired reports whether the verdict depends on the check.
func (c Check) IsRequired() bool { return c.Required == nil || *c.Required }

// checks checks the checks of a profile, and returns them with their defaults.
func (c *compiler) checks(of []Check, timeout time.Duration, at *field.Path) []Check {
	if len(of) > MaxChecks {
		c.errs = append(c.errs, field.TooMany(at, len(of), MaxChecks))
		return nil
	}
	names, containers, requires := sets.New[string](), 0, false
	checks := make([]Check, 0, len(of))
	for i, check := range of {
		in := at.Index(i)
		c.name(check.Name, names, in.Child("name"))
		if check.Name == Worker {
			c.invalid(in.Child("name"), check.Name, "is the name of the worker's own container")
		}
		switch given := check.kinds(); {
		case len(given) == 0:
			c.required(in, "says what to check with one of "+strings.Join(Kinds(), ", "))
		case len(given) > 1:
			c.errs = append(c.errs, field.Forbidden(in, "one check is of one kind, not of several: "+strings.Join(given, ", ")))
		}
		if check.Container != nil {
			containers++
		}
		requires = requires || check.IsRequired()
		checks = append(checks, c.check(check, timeout, in))
	}
	if len(of) > 0 && !requires {
		c.invalid(at, "required: false", "at least one check must be required: without one, every Node would pass")
	}
	if containers > MaxContainers {
		c.errs = append(c.errs, field.Forbidden(at, fmt.Sprintf("has %d container checks; a profile has %d at most", containers, MaxContainers)))
	}
	c.runtimeClasses(of, at)
	if text, err := json.Marshal(checks); err != nil || len(text) > MaxTask {
		c.errs = append(c.errs, field.TooLong(at, "", MaxTask))
	}
	return checks
}

// check checks one check, and returns it with its defaults.
func (c *compiler) check(check Check, timeout time.Duration, at *field.Path) Check {
	check.Required = new(check.IsRequired())
	check.Timeout = c.checkTimeout(check.Timeout, timeout, at.Child("timeout"))
	if check.DNS != nil {
		check.DNS = c.dns(*check.DNS, at.Child("dns"))
	}
	if check.Service != nil {
		c.service(*check.Service, at.Child("service"))
	}
	if check.TCP != nil {
		c.address(check.TCP.Address, at.Child("tcp", "address"))
	}
	if check.HTTP != nil {
		check.HTTP = c.http(*check.HTTP, at.Child("http"))
	}
	if check.Container != nil {
		c.container(*check.Container, at.Child("container"))
	}
	return check
}

// checkTimeout checks the timeout of a check. One that is the profile's is written as none, so that the hash of the checks is the same.
func (c *compiler) checkTimeout(text string, ofProfile time.Duration, at *field.Path) string {
	if text == "" {
		return ""
	}
	switch timeout := c.duration(&text, "5s", time.Second, maxTimeout, at); {
	case timeout > ofProfile && timeout <= maxTimeout && ofProfile >= time.Second:
		c.invalid(at, text, "must not be longer than the timeout of the profile, "+written(ofProfile))
	case timeout == ofProfile:
		return ""
	}
	return text
}

func (c *compiler) dns(dns DNS, at *field.Path) *DNS {
	if len(dns.Names) == 0 {
		c.required(at.Child("names"), "at least one name to resolve, such as kubernetes.default.svc")
	}
	if !c.tooMany(len(dns.Names), at.Child("names")) {
		for i, name := range dns.Names {
			wrong := validation.IsDNS1123Subdomain(strings.TrimSuffix(name, "."))
			if len(validation.IsValidIP(at, name)) == 0 {
				wrong = []string{"must be a name; an address is nothing to resolve"}
			}
			c.invalid(at.Child("names").Index(i), name, wrong...)
		}
	}
	dns.Servers = oneOf(c, at.Child("servers"), cmp.Or(dns.Servers, AnyServer), AnyServer, EachServer)
	return &dns
}

func (c *compiler) service(service Service, at *field.Path) {
	c.namespaced(service.Name, validation.IsDNS1123Label, at.Child("name"))
	c.invalid(at.Child("port"), service.Port, validation.IsValidPortNum(service.Port)...)
	if service.Endpoints < 0 || service.Endpoints > maxEndpoints {
		c.invalid(at.Child("endpoints"), service.Endpoints, fmt.Sprintf("must be from 0, the Service alone, to %d", maxEndpoints))
	}
}

// address checks HOST:PORT; an IPv6 address is in brackets.
func (c *compiler) address(text string, at *field.Path) {
	host, port, found := cutLast(text, ":")
	bare, opened := strings.CutPrefix(host, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	if !found || opened != closed || !opened && strings.Contains(host, ":") {
		c.invalid(at, text, "must be HOST:PORT; an IPv6 address is in brackets")
		return
	}
	c.host(bare, opened, text, at)
	c.port(port, text, at)
}

// host checks an address in brackets. Without brackets it is a name or an IPv4 address, which is a valid name, too.
func (c *compiler) host(host string, inBrackets bool, text string, at *field.Path) {
	if !inBrackets {
		c.invalidPart(at, text, "host", validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(host, "."))))
		return
	}
	for _, wrong := range validation.IsValidIP(at, host) {
		c.invalid(at, text, "host "+wrong.Detail)
	}
}

func (c *compiler) port(port, text string, at *field.Path) {
	number, err := strconv.Atoi(port)
	if err != nil || len(validation.IsValidPortNum(number)) > 0 {
		c.invalid(at, text, "port must be a number from 1 to 65535")
	}
}

func (c *compiler) http(http HTTP, at *field.Path) *HTTP {
	c.url(http.URL, at.Child("url"))
	http.Status = new(c.number(http.Status, 200, 100, 599, at.Child("status")))
	if http.CA != "" {
		if !strings.HasPrefix(http.URL, "https:") {
			c.errs = append(c.errs, field.Forbidden(at.Child("ca"), "only an https URL has a certificate to verify"))
		}
		if problem := certificates(http.CA); problem != "" {
			c.invalid(at.Child("ca"), cut(http.CA, maxShown), problem)
		}
	}
	return &http
}

func (c *compiler) url(text string, at *field.Path) {
	if text == "" {
		c.required(at, "as https://HOST/PATH or http://HOST/PATH")
		return
	}
	parsed, err := url.Parse(text)
	shown := withoutUser(text)
	if err != nil {
		c.invalid(at, shown, "must be a URL, https://HOST/PATH or http://HOST/PATH")
		return
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" {
		c.invalid(at, shown, "must begin with https:// or http://")
		return
	}
	if parsed.User != nil {
		c.invalid(at, shown, "must have no user or password: the policy is no place for secrets")
	}
	if parsed.Fragment != "" {
		c.invalid(at, shown, "must have no fragment: it is not sent")
	}
	if host := parsed.Hostname(); host == "" {
		c.invalid(at, shown, "must name a host")
	} else {
		c.host(host, strings.Contains(host, ":"), shown, at)
	}
	if port := parsed.Port(); port != "" {
		c.port(port, shown, at)
	}
}

// user is what stands before the host of a URL, if it is one at all.
var user = regexp.MustCompile(`(?s)^(.*?://)?[^/?#]*@`)

// withoutUser is a URL for error messages: a password must not get into logs.
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

func (c *compiler) container(container Container, at *field.Path) {
	switch image := container.Image; {
	case image == "":
		c.required(at.Child("image"), "the image to run on the Node")
	case strings.ContainsFunc(image, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }) || strings.Contains(image, "://"):
		c.invalid(at.Child("image"), image, "must be an image, such as registry.example.com/tests/smi:1.2")
	}
	for _, list := range []struct {
		name  string
		words []string
	}{{"command", container.Command}, {"args", container.Args}} {
		if i := slices.IndexFunc(list.words, func(word string) bool { return strings.ContainsRune(word, 0) }); i >= 0 {
			c.invalid(at.Child(list.name).Index(i), list.words[i], "must not hold the character NUL")
		}
	}
	c.env(container.Env, at.Child("env"))
	if class := container.RuntimeClassName; class != "" {
		c.invalid(at.Child("runtimeClassName"), class, validation.IsDNS1123Subdomain(class)...)
	}
	c.resources(container.Limits, at.Child("limits"))
	for _, name := range slices.Sorted(maps.Keys(container.Limits)) {
		if quantity.IsOfNode(name) {
			c.invalid(at.Child("limits").Key(name), name, "is no resource of a container")
		}
	}
}

func (c *compiler) env(env []EnvVar, at *field.Path) {
	if c.tooMany(len(env), at) {
		return
	}
	names := sets.New[string]()
	for i, one := range env {
		c.unique(one.Name, names, at.Index(i).Child("name"), "of the variable", validation.IsEnvVarName)
		if strings.ContainsRune(one.Value, 0) {
			c.invalid(at.Index(i).Child("value"), one.Value, "must not hold the character NUL")
		}
	}
}

// runtimeClasses checks that the containers of a Pod name one class: Kubernetes runs all of them with it, and the worker, too.
func (c *compiler) runtimeClasses(checks []Check, at *field.Path) {
	first := ""
	for i, check := range checks {
		if check.Container == nil {
			continue
		}
		if first == "" {
			first = check.Name
		}
		if class, common := check.Container.RuntimeClassName, RuntimeClass(checks); class != common {
			c.errs = append(c.errs, field.Forbidden(at.Index(i).Child("container", "runtimeClassName"), fmt.Sprintf(
				"check %s has %s and check %s has %s, and all containers of the worker Pod have the same", first, orDefault(common), check.Name, orDefault(class))))
		}
	}
}

func orDefault(class string) string { return cmp.Or(class, "the default class") }
