package inventory

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The policy could have capture send its own token to any server.
func TestAPolicyCanNameNoFileOutsideOfTheMounts(t *testing.T) {
	for file, allowed := range map[string]bool{
		"/var/run/nodekeep/cmdb/token":                             true,
		"/var/run/secrets/kubernetes.io/serviceaccount/token":      false,
		"/var/run/nodekeep/../secrets/kubernetes.io/token":         false,
		"/var/run/nodekeep/cmdb/../../secrets/kubernetes.io/token": false,
		"/var/run/nodekeep/./cmdb/token":                           false,
		"/var/run/nodekeep//cmdb/token":                            false,
		"/var/run/nodekeep":                                        false,
		"/var/run/nodekeep/":                                       false,
		"/var/run/nodekeep-other/token":                            false,
		"var/run/nodekeep/cmdb/token":                              false,
		"cmdb/token":                                               false,
		"/":                                                        false,
	} {
		for name, entry := range map[string]Entry{
			"auth.tokenFile": {Name: "a", URL: "https://a", Auth: Auth{TokenFile: file}, Attributes: []string{"rack"}},
			"ca":             {Name: "a", URL: "https://a", CA: file, Attributes: []string{"rack"}},
			"file":           {Name: "a", File: file, Attributes: []string{"rack"}},
		} {
			_, errs := Compile([]Entry{entry}, field.NewPath("inventory"))
			assert.Equal(t, allowed, len(errs) == 0, "%s: %s: %v", name, file, errs)
			for _, err := range errs {
				assert.Equal(t, "inventory[0]."+name, err.Field)
			}
		}
	}
}
