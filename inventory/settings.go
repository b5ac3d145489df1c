package inventory

import (
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Every field of a policy is optional, unless its comment says otherwise.
// +kubebuilder:validation:Optional

// Bounds of the section inventory.
const (
	maxSources    = 8
	MaxAttributes = 32 // of a Node, and of a source
	MaxText       = 63 // bytes of a name or value of an attribute

	shortestInterval  = time.Second
	defaultInterval   = 5 * time.Minute
	defaultStaleAfter = 24 * time.Hour
)

// Mounts is where the files of all sources are: the chart mounts the Secrets of inventory.secrets there. No other file may be named. Otherwise the
// policy could have capture send its own token to a server.
const Mounts = "/var/run/nodekeep/"

// Entry is an entry of the section inventory.
// +kubebuilder:validation:XValidation:rule="[has(self.url) && size(self.url) > 0, has(self.file) && size(self.file) > 0, has(self.configMap) && size(self.configMap) > 0].filter(x, x).size() == 1",message="must have exactly one of url, file and configMap"
type Entry struct {
	// The name by which rules, metrics and Events know the source.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	Name string `json:"name"`
	// Where the document is: https://... A source has one of url, file and configMap.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https://.*)?$`
	URL string `json:"url"`
	// A file below /var/run/nodekeep/, where the chart mounts the Secrets of inventory.secrets.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(/var/run/nodekeep/.*)?$`
	File string `json:"file"`
	// A ConfigMap in nodekeep's namespace; the document is its key inventory.json.
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap"`
	// How often the document is read; 5m by default. Shorter is for a document that changes while machines are being installed.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Interval string `json:"interval"`
	// How capture proves to the server who it is.
	Auth Auth `json:"auth"`
	// A PEM file below /var/run/nodekeep/. Without one, the authorities of the system count.
	// +kubebuilder:validation:Pattern=`^(/var/run/nodekeep/.*)?$`
	CA string `json:"ca"`
	// The attributes that rules look at. Others are not kept.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`
	Attributes []string `json:"attributes"`
	// How long what was read last stays in force while the source cannot be read; 24h by default. Shorter
	// is for facts that soon become wrong.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	StaleAfter string `json:"staleAfter"`
	// Whether records are made of Nodes that the document lists and that have never registered. Then their labels are
	// in their very first CREATE.
	Preload bool `json:"preload"`
}

// Auth is how capture proves who it is.
type Auth struct {
	// A file with a bearer token, below /var/run/nodekeep/.
	// +kubebuilder:validation:Pattern=`^(/var/run/nodekeep/.*)?$`
	TokenFile string `json:"tokenFile"`
}

// Source is an entry that was checked.
type Source struct {
	Name                 string
	URL, File, ConfigMap string // one of them
	TokenFile, CA        string
	Interval, StaleAfter time.Duration
	Attributes           []string // sorted
	Preload              bool
	Kept                 int // bytes of memory that a snapshot may take: the source's part of what all may take
}

// Equal reports whether two sources are equal.
func (s Source) Equal(o Source) bool { return reflect.DeepEqual(s, o) }

var attributeName = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

// Compile checks the section. It returns all errors at once.
func Compile(entries []Entry, path *field.Path) (sources []Source, errs field.ErrorList) {
	if len(entries) > maxSources {
		return nil, field.ErrorList{field.TooMany(path, len(entries), maxSources)}
	}
	names := map[string]bool{}
	for i, entry := range entries {
		fieldPath := path.Index(i)
		c := compiler{path: fieldPath}
		source := c.source(entry)
		source.Kept = keptOf(len(entries))
		sources = append(sources, source)
		if names[entry.Name] && entry.Name != "" {
			c.errs = append(c.errs, field.Duplicate(fieldPath.Child("name"), entry.Name))
		}
		names[entry.Name] = true
		errs = append(errs, c.errs...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return sources, nil
}

// compiler checks one entry.
type compiler struct {
	path *field.Path
	errs field.ErrorList
}

func (c *compiler) invalid(name, value, reason string) {
	c.errs = append(c.errs, field.Invalid(c.path.Child(name), value, reason))
}

func (c *compiler) source(entry Entry) Source {
	s := Source{
		Name: entry.Name, URL: entry.URL, File: entry.File, ConfigMap: entry.ConfigMap, TokenFile: entry.Auth.TokenFile, CA: entry.CA, Preload: entry.Preload,
		Interval: c.duration("interval", entry.Interval, defaultInterval), StaleAfter: c.duration("staleAfter", entry.StaleAfter, defaultStaleAfter),
		Attributes: slices.Sorted(slices.Values(entry.Attributes)),
	}
	switch entry.Name {
	case "":
		c.errs = append(c.errs, field.Required(c.path.Child("name"), "rules, metrics and Events name the source"))
	default:
		for _, wrong := range validation.IsDNS1123Label(entry.Name) {
			c.invalid("name", entry.Name, wrong)
		}
	}
	given := slices.DeleteFunc([]string{entry.URL, entry.File, entry.ConfigMap}, func(from string) bool { return from == "" })
	if len(given) != 1 {
		c.errs = append(c.errs, field.Required(c.path, "must have exactly one of url, file and configMap"))
	}
	c.url(entry.URL)
	for name, file := range map[string]string{"file": entry.File, "ca": entry.CA, "auth.tokenFile": entry.Auth.TokenFile} {
		if file != "" && (!strings.HasPrefix(file, Mounts) || filepath.Clean(file) != file) {
			c.invalid(name, file, "must be a file below "+Mounts+", where the chart mounts what inventories need")
		}
		if file != "" && name != "file" && entry.URL == "" {
			c.errs = append(c.errs, field.Forbidden(c.path.Child(name), "only a source with a url has it"))
		}
	}
	if entry.ConfigMap != "" {
		for _, wrong := range validation.IsDNS1123Subdomain(entry.ConfigMap) {
			c.invalid("configMap", entry.ConfigMap, wrong)
		}
	}
	c.attributes(entry.Attributes)
	if s.StaleAfter < s.Interval {
		c.invalid("staleAfter", entry.StaleAfter, "must not be shorter than interval")
	}
	slices.SortFunc(c.errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return s
}

func (c *compiler) url(text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text has the whole URL
		c.invalid("url", text, "must be a URL that begins with https://")
	case u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
		c.invalid("url", text, "must begin with https:// and name a host: without TLS, anybody on the way could change labels")
	case u.User != nil:
		c.errs = append(c.errs, field.Forbidden(c.path.Child("url"), "must hold no password: use auth.tokenFile"))
	case u.Fragment != "":
		c.invalid("url", text, "must have no fragment")
	}
}

func (c *compiler) attributes(names []string) {
	path := c.path.Child("attributes")
	if len(names) == 0 {
		c.errs = append(c.errs, field.Required(path, "must name the attributes that rules look at; the others are not kept"))
	}
	if len(names) > MaxAttributes {
		c.errs = append(c.errs, field.TooMany(path, len(names), MaxAttributes))
	}
	seen := map[string]bool{}
	for i, name := range names {
		if !attributeName.MatchString(name) {
			c.errs = append(c.errs, field.Invalid(path.Index(i), name, "must be 1 to 63 letters, digits, '-', '_' or '.', and begin and end with a letter or digit"))
		}
		if seen[name] {
			c.errs = append(c.errs, field.Duplicate(path.Index(i), name))
		}
		seen[name] = true
	}
}

func (c *compiler) duration(name, text string, otherwise time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < shortestInterval {
		c.invalid(name, text, "must be a duration in h, m and s of at least 1s, such as 5m")
		return otherwise
	}
	return d
}
