package capture

import "nodekeep.dev/nodekeep/store"

// ahead reports whether a record tells of a later state than this one of a Node. Where the API server has answered with this state
// after the record was read, the record tells of what never was: it came from a backup of another cluster, or somebody wrote it. Two
// objects of one name never live at the same time, and each change gives a Node a greater resourceVersion, so nobody can
// have seen a later state than that of an object which is still there.
func ahead(record store.Record, seen *Node) bool {
	return compareVersions(seen.ResourceVersion, record.NodeResourceVersion) < 0 || late(record, seen)
}

// WithoutObject is a record without what it says of one Node object: its UID, how new each observation was, and notes about taints
// on that object. All values stay.
func WithoutObject(record store.Record) store.Record {
	record.UID, record.NodeResourceVersion = "", ""
	record = flat(record)
	record.Early, record.RuleTaints, record.RuleClaims, record.FormerTaints = false, nil, nil, nil
	if record.Quarantined != nil {
		old := WithoutObject(*record.Quarantined)
		record.Quarantined = &old
	}
	return record
}
