package cli

import "nodekeep.dev/nodekeep/cli/doctor"

// [options.rights] are the rights that the command itself needs; [options.requiredRights] adds those that --policy and --gate-key need. They are checked before the
// command starts: it names all missing rights at once, and none of them stops it halfway. Optional rights are not among them.

// requiredRights returns the rights without which a command cannot do what its flags and arguments say.
func (o *options) requiredRights(c *session, traits commandTraits, args []string) (needed []doctor.Right) {
	switch {
	case traits&hasPolicy != 0 && o.policy.file == "":
		needed = append(needed, c.PolicyInForceRights()...)
	case traits&(hasPolicy|hasGateKey) != 0 && o.policy.gateKey == "":
		needed = append(needed, c.ConfigMapRight("get", gateObjectName))
	}
	if o.rights != nil {
		needed = append(needed, o.rights(c, args)...)
	}
	return needed
}

// allNodesRights returns the rights to go through all Nodes and all records.
func (c *session) allNodesRights(verb string) []doctor.Right {
	return []doctor.Right{c.NodesRight(verb), c.RecordsRight(verb)}
}

// nodeAndRecordRights returns the rights to read a Node and its record.
func (c *session) nodeAndRecordRights(node string) []doctor.Right {
	return []doctor.Right{c.NodeRight("get", node), c.RecordRight("get", node)}
}
