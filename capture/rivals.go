package capture

import (
	"fmt"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
)

// intent is what nodekeep does to an item.
func intent(set setting) string {
	if set.removed {
		return "removes it"
	}
	return fmt.Sprintf("sets it to %q", set.value)
}

func named(managers []string) string {
	if len(managers) == 0 {
		return "another one, which metadata.managedFields do not show,"
	}
	quoted := make([]string, len(managers))
	for i, manager := range managers {
		quoted[i] = fmt.Sprintf("%q", manager)
	}
	return strings.Join(quoted, ", ")
}

// rivals are the other field managers that own an item: of a label its managers, of a taint the manager that wrote the
// list last. Of an item that was removed, managedFields show none where nobody owns the rest of the list.
func rivals(node *observe.Node, set setting) []string {
	if !record.IsTaint(set.item) {
		return node.Owners[set.item]
	}
	others := slices.DeleteFunc(slices.Clone(node.Writers), func(w observe.Writer) bool { return w.Manager == observe.FieldManager })
	last, found := observe.LastWriter(others, func(w observe.Writer) bool { return w.Taints })
	if !found {
		return nil
	}
	return []string{last.Manager}
}
