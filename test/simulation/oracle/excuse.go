package oracle

// An Excuse is a known limit of docs/design.md, section 5: no rule can do better, because no process can know.
type Excuse int

// The excuses. Nothing else is forgiven.
const (
	Promised        Excuse = iota // none: what a client wanted last
	Unobserved                    // an edit whose Node was deleted while the DELETE handler was down and before capture observed it
	UntracedRemoval               // a removal of a key that no process ever observed on that object
	SetBack                       // a taint set back to exactly the listed value, with nobody observing what was between
	Hidden                        // a kubelet overwrote an edit, or claimed its key, before anybody observed it
	SlowWriter                    // an older state written by a slow capture after a fast one observed the newer one without a write
	TooFarBehind                  // more than eight objects behind
	Unselected                    // the policy did not select the key when it was observed last
	Unstamped                     // a client removed the annotation that proved what happened before
	Unguarded                     // without the guard policies the stamp of a protected label or taint proves nothing, and kubelets forge it
	Lost                          // the record was lost or put back older, and only what nodekeep had given a Node shows what it had
	Excuses                       // how many there are
)

func (e Excuse) String() string {
	return [...]string{
		"promised", "edit never observed", "removal of a key that was never observed on the object", "taint set back to the listed value unobserved",
		"hidden by the kubelet", "older state written by a slow capture", "more than 8 objects behind", "not selected by the policy",
		"annotation removed by a client", "no guard policies", "record lost",
	}[e]
}
