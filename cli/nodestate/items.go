package nodestate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// KindOf returns what an item is.
func KindOf(item string) string {
	switch {
	case record.IsTaint(item):
		return "taint"
	case record.IsAnnotation(item):
		return "annotation"
	default:
		return "label"
	}
}

// SortedItems lists the items of maps, each once: labels, then taints, then annotations, each by key.
func SortedItems[V any](sources ...map[string]V) []string {
	all := map[string]bool{}
	for _, items := range sources {
		for item := range items {
			all[item] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), CompareItems)
}

// CompareItems returns the order of [SortedItems].
func CompareItems(a, b string) int {
	order := func(item string) int { return slices.Index([]string{"label", "taint", "annotation"}, KindOf(item)) }
	return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a, b))
}

// ValueIn returns the value of an item; nil: it is not among these.
func ValueIn(items map[string]string, item string) *string {
	if value, ok := items[item]; ok {
		return &value
	}
	return nil
}

// maxShown is how much of an annotation's value is shown. No label or taint has a longer one.
const maxShown = 80

// FormatValue returns a value as all commands show it; an empty one is not none.
func FormatValue(value *string) string {
	switch {
	case value == nil:
		return "-"
	case len(*value) > maxShown:
		return fmt.Sprintf("%s... (%d bytes)", policy.Shortened(*value, maxShown), len(*value))
	default:
		return cmp.Or(*value, `""`)
	}
}
