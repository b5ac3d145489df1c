package impact

import "nodekeep.dev/nodekeep/cli/nodestate/statetest"

// set are labels, or items.
type set = map[string]string

var now = statetest.Now()
