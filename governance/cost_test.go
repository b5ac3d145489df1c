package governance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// expensive returns the most expensive policy that the schema allows, but for texts that are longer than a whole policy may be. Its labels are those that
// break all of its patterns, as nobody who owns them.
func expensive(open string) (settings Settings, change map[string]string) {
	change = map[string]string{}
	var owners, requires []string
	for i := range maxOwners {
		owners = append(owners, fmt.Sprintf("group:%s%02d%s", strings.Repeat("o", 280), i, open))
		requires = append(requires, fmt.Sprintf("%s/%s%02d", strings.Repeat("r.", 126)+"r", strings.Repeat("r", 60), i))
	}
	for i := range maxKeys {
		key := Key{
			Key: fmt.Sprintf("%s/%s%02d", strings.Repeat("k.", 126)+"k", strings.Repeat("k", 60), i), Pattern: "a" + strings.Repeat("a?b", 85),
			Required: true, Immutable: true, Requires: requires, Owners: owners, Mode: Deny,
		}
		settings.Keys = append(settings.Keys, key)
		change[key.Key] = strings.Repeat("a", 62) + "-"
	}
	for i := range maxReserved {
		settings.Reserved = append(settings.Reserved, fmt.Sprintf("%s%02d/*", strings.Repeat("b.", 126), i))
	}
	return settings, change
}

// groups returns so many, each with a long name.
func groups(plural, length int) (all []string) {
	for i := range plural {
		all = append(all, fmt.Sprintf("%0*d", length, i))
	}
	return all
}

// What costs more than an API server allows is an error, and messages fails the test then.
func TestNoExpressionCostsMoreThanAnAPIServerAllows(t *testing.T) {
	deny := newEvaluator(t, DenyPolicy)
	for _, open := range []string{"", "*"} {
		settings, wrong := expensive(open)
		for _, plural := range []int{0, 1, 5, 10, 15, 20, 25, 340, 400, 10_000, 10_001, 100_000} {
			for _, length := range []int{5, 1000} {
				if plural*length <= 1_000_000 { // headers of a request have no more
					logged := deny.messages(t, request(t, settings, nil, wrong, requester{user: "bob", groups: groups(plural, length)}))
					assert.Len(t, logged, 3, "pattern, requires and owners, in %d groups", plural)
				}
			}
		}
		for _, plural := range []int{5, 10, 11, 500, 2_000, 2_001, 20_000, 20_001} {
			labels := map[string]string{settings.Reserved[0][:254] + "/x": ""}
			for i := range plural - 1 {
				labels[fmt.Sprintf("%s%05d/%s", strings.Repeat("j.", 124), i, strings.Repeat("j", 63))] = ""
			}
			assert.NotEmpty(t, deny.messages(t, request(t, settings, nil, labels, requester{user: "bob"})), "one of %d labels is reserved", plural)
			for _, reserved := range []string{"*", "x*", "*.example.com/*"} {
				little := Settings{Reserved: []string{reserved, settings.Reserved[0]}}
				assert.NotEmpty(t, deny.messages(t, request(t, little, nil, labels, requester{user: "bob"})), "one of %d labels is reserved", plural)
			}
		}
	}
}
