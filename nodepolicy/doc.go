// Package nodepolicy keeps the policy of a process what the NodePolicy default says. By the same decision, [InForceOf] says what is in force in a cluster
// that was read.
//
// Invariants:
//   - Nothing is in force before it is known what is, see [Source.Known]. An API server that does not answer decides nothing.
//   - A NodePolicy that cannot be used changes nothing: the last good policy stays in force.
//   - That there is no NodePolicy is no instruction, whatever the reason. What was accepted last stays in force, also for a process that starts
//     then. It finds the manifests of the last two policies in ConfigMap [store.AcceptedConfigMap], which capture writes. Without them, the defaults are
//     in force. An empty spec returns to the defaults.
//   - Each generation is reported once.
//   - A panic over a NodePolicy is an error of that NodePolicy.
package nodepolicy
