package quantity

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// amount is how a quantity looks. The parser of Kubernetes takes seconds for a number such as 1e-9999999.
var amount = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)

// Parse reads an amount of a resource, such as 1, 500m or 64Gi.
func Parse(text string) (resource.Quantity, error) {
	if !amount.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

// IsWhole reports whether an amount is a whole number.
func IsWhole(amount resource.Quantity) bool {
	rounded := amount.DeepCopy()
	rounded.RoundUp(0)
	return rounded.Cmp(amount) == 0
}
