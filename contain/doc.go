// Package contain keeps a panic in the work on one object from ending the process.
//
// Go ends a process when any goroutine panics. One object that makes the code panic would then end every replica, again after each restart.
// So the work on one object runs in [Call]. A panic is an error like any other: logged, counted, retried later.
//
// Invariants:
//   - [Call] returns; it never panics.
//   - The error of a panic holds the stack.
package contain
