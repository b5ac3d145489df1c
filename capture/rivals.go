package capture

import (
	"fmt"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/policy"
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
func rivals(seen *Node, set setting) []string {
	if !policy.IsTaint(set.item) {
		return seen.Owners[set.item]
	}
	others := slices.DeleteFunc(slices.Clone(seen.Writers), func(w writer) bool { return w.Manager == fieldManager })
	last, found := lastWriter(others, func(w writer) bool { return w.Taints })
	if !found {
		return nil
	}
	return []string{last.Manager}
}
