// Package selection finds which label keys of Nodes an object of Kubernetes selects on. Such an object is a Pod, a workload's template, a
// PersistentVolume, a StorageClass or a RuntimeClass.
//
// Invariants:
//   - Pure, and a leaf: values in, values out; it imports nothing of nodekeep.
//   - A key that is not found is "not seen in use", never "unused". Custom resources, schedulers and programs also select by labels, and no
//     object shows that.
//   - Keys of Node labels only: the topologyKey of a Pod is one, the keys of its label selectors are not.
//   - An object that no longer schedules Pods is not in use: a Pod or Job that has ended.
package selection
