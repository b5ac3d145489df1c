package measure

import "fmt"

// PolicyOfRules returns a policy with count rules for labels, as a large cluster might have. The rules use facts of every kind, and several of them
// can set one label. One rule in five is true of Nodes with that number of cores. On such a Node, 50 rules set 3 labels, example.com/size-0 to 2.
func PolicyOfRules(count, cores int) string {
	text := "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  labels:\n    rules:\n"
	for i := range count {
		key := fmt.Sprintf("example.com/size-%d", i/20)
		if i%5 == 0 { // at CREATE, whether there is a GPU is not known yet, which blocks the key
			key = fmt.Sprintf("example.com/gpu-%d", i/5)
		}
		conditions := []string{
			`{capacity: {nvidia.com/gpu: ">=1", cpu: ">=64"}}`, `{names: ["gpu-*", "db-*"]}`, `{names: ["^rack-(?P<rack>[0-9]+)-"]}`,
			`{labels: kubernetes.io/arch=arm64, kubelet: ">=1.30"}`, fmt.Sprintf(`{any: [{capacity: {cpu: ">=%d"}}, {names: ["big-*"]}]}`, cores),
		}[i%5]
		text += fmt.Sprintf("    - {name: rule-%d, when: %s, set: {%s: %s}}\n", i, conditions, key, []string{"a", "b", "c", "d", "large"}[i%5])
	}
	return text
}
