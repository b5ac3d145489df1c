// Package selection finds which label keys of Nodes an object of Kubernetes selects on: a Pod, the template of a workload, a PersistentVolume, a
// StorageClass or a RuntimeClass.
//
// Invariants:
//   - Pure, and a leaf: values in, values out; it imports nothing of nodekeep.
//   - A key that is not found is "not seen in use", never "unused": custom resources, schedulers and programs that read Nodes select by
//     labels, too, and no object shows it.
//   - Keys of Node labels only: a label selector of Pods is none of them, its topologyKey is one.
//   - An object that schedules no Pod any more is not in use: a Pod or Job that has ended.
package selection
