package trial

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Said is what a command has printed, on both outputs, and how it ended.
type Said struct {
	Command []string // without the program: "verify", "list"
	Text    string
	Code    int
}

// is reports whether this is the command of these words, whatever arguments follow.
func (s Said) is(words ...string) bool {
	return len(s.Command) >= len(words) && slices.Equal(s.Command[:len(words)], words)
}

// statement is a kind of sentence: where a command says one, it must be true.
type statement struct {
	about string
	of    []string // the words of the command; empty: every command
	wrong func(said Said, s State) []string
}

// statements are all that the checker knows.
var statements = []statement{
	{"the Nodes of a list, their status and their gate", []string{"list"}, wrongList},
	{"the Nodes behind the gate", []string{"gate", "list"}, wrongGate},
	{"differences between a Node and its record", []string{"diff"}, wrongDifferences},
	{"what a record has", []string{"show"}, wrongRecord},
	{"where a Node stands", []string{"explain"}, wrongExplanation},
	{"which Nodes take workloads", []string{"verify", "list"}, wrongVerification},
	{"whether a Node takes workloads", []string{"verify", "show"}, wrongVerifiedNode},
	{"the last change of each item", []string{"history"}, wrongHistory},
	{"how many Nodes there are", []string{"report"}, wrongReport},
	{"checks that are ok", []string{"doctor"}, wrongDoctor},
	{"an emergency", nil, wrongEmergency},
	{"a policy that cannot be used", nil, wrongPolicy},
	{"which processes have not read the policy", nil, wrongFollowers},
}

// Untrue names each statement of a command that is true in none of these states. The API server had them while the command ran. It is empty if the
// command said nothing untrue.
func Untrue(said Said, states ...State) []string {
	var untrue []string
	for _, one := range statements {
		if len(one.of) > 0 && !said.is(one.of...) {
			continue
		}
		var least []string
		for i, state := range states {
			if wrong := one.wrong(said, state); i == 0 || len(wrong) < len(least) {
				least = wrong
			}
		}
		for _, wrong := range least {
			untrue = append(untrue, one.about+": "+wrong)
		}
	}
	return untrue
}

func wrongList(said Said, s State) (wrong []string) {
	if said.Code != 0 {
		return nil
	}
	want := map[string]bool{}
	for name := range s.Records {
		want[name] = true
	}
	for name := range s.Nodes {
		want[name] = true
	}
	rows := rowsOf(said.Text, "NAME", "STATUS", "LABELS", "GATED")
	for _, row := range rows {
		name := row["NAME"]
		wrong = append(wrong, wrongPresence(name, row["STATUS"], s)...)
		if labels := countLabels(s.Records[name].Items()); row["LABELS"] != strconv.Itoa(labels) {
			wrong = append(wrong, fmt.Sprintf("the record of Node %s has %d labels, and not %s", name, labels, row["LABELS"]))
		}
		if node := s.Nodes[name]; (row["GATED"] == "yes") != (node != nil && hasTaint(node, gateKey)) {
			wrong = append(wrong, fmt.Sprintf("Node %s: gated %s", name, row["GATED"]))
		}
		delete(want, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		wrong = append(wrong, "Node "+name+" is missing")
	}
	return wrong
}

// countLabels counts the items that are neither taints nor annotations.
func countLabels(items map[string]string) (labels int) {
	for item := range items {
		if !strings.ContainsAny(item, ":@") {
			labels++
		}
	}
	return labels
}

func wrongGate(said Said, s State) []string {
	return wrongSet("behind the gate", rowsOf(said.Text, "NAME", "GATED"), s.tainted(gateKey))
}

// wrongSet compares the names in rows with those that there are.
func wrongSet(what string, rows []row, want []string) (wrong []string) {
	var has []string
	for _, row := range rows {
		has = append(has, row["NAME"])
	}
	for _, name := range want {
		if !slices.Contains(has, name) {
			wrong = append(wrong, fmt.Sprintf("Node %s is %s, and is missing", name, what))
		}
	}
	for _, name := range has {
		if !slices.Contains(want, name) {
			wrong = append(wrong, fmt.Sprintf("Node %s is not %s", name, what))
		}
	}
	return wrong
}

// subject returns the Node that a command is about.
func (s Said) subject(words int) string {
	if len(s.Command) <= words {
		return ""
	}
	return s.Command[words]
}

// wrongColumns compares the columns NODE and RECORD of a table of items.
func wrongColumns(rows []row, node string, s State) (wrong []string) {
	recorded := s.Records[node].Items()
	for _, row := range rows {
		item := row["KEY"]
		if column, has := row["NODE"]; has {
			if is := cell(shown(s.Nodes[node], item)); column != is {
				wrong = append(wrong, fmt.Sprintf("Node %s has %s %s, and not %s", node, item, is, column))
			}
		}
		if column, has := row["RECORD"]; has {
			value, kept := recorded[item]
			if is := cell(value, kept); column != is {
				wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s %s, and not %s", node, item, is, column))
			}
		}
	}
	return wrong
}

func wrongDifferences(said Said, s State) []string {
	node := said.subject(1)
	wrong := wrongColumns(rowsOf(said.Text, "KEY", "RECORD", "NODE"), node, s)
	if strings.Contains(said.Text, "No differences.") && s.Nodes[node] != nil {
		for item, value := range s.Records[node].Items() {
			if is, has := shown(s.Nodes[node], item); !has || is != value {
				wrong = append(wrong, fmt.Sprintf("Node %s differs in %s: it has %s, and the record %q", node, item, cell(is, has), value))
			}
		}
	}
	return wrong
}

// wrongStatus compares the line Status.
func wrongStatus(said Said, node string, s State) []string {
	status, _, _ := strings.Cut(factOf(said.Text, "Status"), ",")
	return wrongPresence(node, status, s)
}

// wrongPresence compares the status of a Node with the Node and its record. Without a record, a Node that has nothing to keep is present.
func wrongPresence(name, status string, s State) []string {
	node := s.Nodes[name]
	_, recorded := s.Records[name]
	right := true
	switch status {
	case "Gone":
		right = node == nil && recorded
	case "Present":
		right = node != nil
	case "Unrecorded":
		right = node != nil && !recorded && mayBeKept(node)
	}
	if right {
		return nil
	}
	return []string{fmt.Sprintf("Node %s is not %s", name, status)}
}

// mayBeKept reports whether a Node shows a label or a taint that does not belong to Kubernetes or nodekeep.
func mayBeKept(node *corev1.Node) bool {
	others := func(key string) bool {
		return strings.HasPrefix(key, "node-role.") || !strings.Contains(key, "kubernetes.io/") && !strings.HasPrefix(key, "nodekeep.dev/")
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(node.Labels)), others) ||
		slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return others(taint.Key) })
}

func wrongRecord(said Said, s State) []string {
	node := said.subject(1)
	wrong := wrongStatus(said, node, s)
	if said.Code != 0 {
		return wrong
	}
	items := s.Records[node].Items()
	for _, row := range rowsOf(said.Text, "RECORDED", "KEY", "VALUE", "STATE") {
		value, has := items[row["KEY"]]
		if is := cell(value, has); row["VALUE"] != is {
			wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s %s, and not %s", node, row["KEY"], is, row["VALUE"]))
		}
		delete(items, row["KEY"])
	}
	for _, item := range slices.Sorted(maps.Keys(items)) {
		wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s, which is missing", node, item))
	}
	return wrong
}

func wrongExplanation(said Said, s State) []string {
	node := said.subject(1)
	wrong := append(wrongStatus(said, node, s), wrongColumns(rowsOf(said.Text, "ITEM", "KEY", "NODE", "RECORD"), node, s)...)
	runs := len(s.Pods[captureProcess]) > 0 || s.Leader != ""
	if said.Code == 0 && s.Nodes[node] != nil && noneRuns.MatchString(said.Text) == runs {
		wrong = append(wrong, fmt.Sprintf("capture runs: %v", runs))
	}
	return wrong
}

// noneRuns is how a command says that no capture runs.
var noneRuns = regexp.MustCompile(`(?i)no capture (runs|leads|has)`)

func wrongVerification(said Said, s State) (wrong []string) {
	closed := s.tainted(unverifiedKey)
	for _, row := range rowsOf(said.Text, "NAME", "STATE", "WHY") {
		wrong = append(wrong, wrongOpening(row["NAME"], row["STATE"], row["WHY"], s)...)
		closed = slices.DeleteFunc(closed, func(name string) bool { return name == row["NAME"] })
	}
	if said.Code != 0 {
		return wrong
	}
	for _, name := range closed {
		wrong = append(wrong, "Node "+name+" waits for verification, and is missing")
	}
	return append(wrong, wrongController(said, len(s.tainted(unverifiedKey)) > 0, s)...)
}

// noController is how a command says that no Node is checked.
var noController = regexp.MustCompile(`No verification controller has`)

// wrongController compares what a command about Nodes that wait says of the controller.
func wrongController(said Said, waits bool, s State) []string {
	if runs := len(s.Pods[verifyProcess]) > 0; waits && !s.Emergency && noController.MatchString(said.Text) == runs {
		return []string{fmt.Sprintf("a verification controller runs: %v", runs)}
	}
	return nil
}

// wrongOpening compares the state of a Node's verification with its taint. An old worker Pod keeps no Node from being open.
func wrongOpening(name, state, why string, s State) []string {
	node := s.Nodes[name]
	if node == nil {
		return []string{"there is no Node " + name}
	}
	open := state == "open" || state == "verified" || state == "failing"
	if open == hasTaint(node, unverifiedKey) {
		return []string{fmt.Sprintf("Node %s is %q, and has the taint of verification: %v", name, state, !open)}
	}
	if open && strings.Contains(why, "old worker Pod") {
		return []string{fmt.Sprintf("Node %s is open, and no worker Pod is the reason: %s", name, why)}
	}
	return nil
}

func wrongVerifiedNode(said Said, s State) []string {
	node, state := said.subject(2), factOf(said.Text, "State")
	switch {
	case state == "":
		return nil
	case strings.Contains(state, "deleted"):
		if s.Nodes[node] != nil {
			return []string{"there is a Node " + node}
		}
		return nil
	}
	waits := s.Nodes[node] != nil && hasTaint(s.Nodes[node], unverifiedKey)
	return append(wrongOpening(node, state, factOf(said.Text, "Why"), s), wrongController(said, waits, s)...)
}

func wrongHistory(said Said, s State) (wrong []string) {
	node := said.subject(1)
	items := s.Records[node].Items()
	last := map[string]string{}
	for _, row := range rowsOf(said.Text, "NUMBER", "KEY", "TO") {
		last[row["KEY"]] = row["TO"]
	}
	for _, item := range slices.Sorted(maps.Keys(last)) {
		value, has := items[item]
		if is := cell(value, has); is != last[item] {
			wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s %s, and not %s", node, item, is, last[item]))
		}
	}
	return wrong
}

func wrongReport(said Said, s State) []string {
	if nodes := factOf(said.Text, "Nodes"); nodes != "" && nodes != strconv.Itoa(len(s.Nodes)) {
		return []string{fmt.Sprintf("there are %d Nodes, and not %s", len(s.Nodes), nodes)}
	}
	return nil
}

// doctorMayNotSayOK are checks of doctor that may not be ok in a state.
var doctorMayNotSayOK = map[string]func(s State) (why string){
	"webhook-answers": func(s State) string { return where(len(s.Pods[webhookProcess]) == 0, "no webhook runs") },
	"leader": func(s State) string {
		return where(s.Leader == "" && len(s.Pods[captureProcess]) == 0, "no capture runs")
	},
	"verification": func(s State) string {
		return where(len(s.Pods[verifyProcess]) == 0, "no controller of verification runs")
	},
	"policy": func(s State) string {
		return where(s.Invalid() || len(s.Behind()) > 0, "it cannot be used, or a process has not read it")
	},
	"closed-nodes": func(s State) string {
		closed := len(s.tainted(gateKey))
		return where(len(s.Nodes) > 0 && closed == len(s.Nodes), "every Node is behind the gate")
	},
	"emergency": func(s State) string { return where(s.Emergency, "there is an emergency") },
}

func where(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

var gatedCount = regexp.MustCompile(`^(\d+) of (\d+) Nodes are behind the gate`)

func wrongDoctor(said Said, s State) (wrong []string) {
	for _, row := range rowsOf(said.Text, "CHECK", "STATUS", "WHAT") {
		check, what := row["CHECK"], row["WHAT"]
		if row["STATUS"] != "ok" {
			continue
		}
		if forbids, known := doctorMayNotSayOK[check]; known {
			if why := forbids(s); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s is not ok (%q): %s", check, what, why))
			}
		}
		if counts := gatedCount.FindStringSubmatch(what); counts != nil &&
			(counts[1] != strconv.Itoa(len(s.tainted(gateKey))) || counts[2] != strconv.Itoa(len(s.Nodes))) {
			wrong = append(wrong, fmt.Sprintf("%d of %d Nodes are behind the gate, and not %s of %s", len(s.tainted(gateKey)), len(s.Nodes), counts[1], counts[2]))
		}
		if leader, is := strings.CutSuffix(what, " leads"); check == "leader" && is && s.Leader != "" && !strings.HasPrefix(s.Leader, leader) {
			wrong = append(wrong, fmt.Sprintf("%s leads, and not %s", s.Leader, leader))
		}
	}
	if said.Code == 0 && (s.Invalid() || s.Emergency || len(s.Pods[webhookProcess]) == 0 || len(s.Pods[captureProcess]) == 0) {
		wrong = append(wrong, "it ends as if all were well")
	}
	return wrong
}

// judges reports whether a command decides by the policy, and so must say what stands in the way.
func (s Said) judges() bool {
	return s.is("explain") || s.is("diff") || s.is("verify", "list") || s.is("verify", "show") || s.is("gate", "list") || s.is("doctor")
}

// checksIt is how a command says that another one has a Node checked.
var checksIt = regexp.MustCompile("verify run [^`]*` checks it")

// emergency is how a command says that there is one.
var emergency = regexp.MustCompile(`(?i)an emergency was declared`)

func wrongEmergency(said Said, s State) []string {
	if said.is("emergency") || !said.judges() || said.is("diff") {
		return nil
	}
	switch says := emergency.MatchString(said.Text); {
	case s.Emergency && checksIt.MatchString(said.Text):
		return []string{"verify run checks no Node now"}
	case s.Emergency && !says:
		return []string{"there is one, and it does not say so"}
	case !s.Emergency && says:
		return []string{"there is none"}
	}
	return nil
}

// lastGood is how a command says that it does not go by the NodePolicy.
var lastGood = regexp.MustCompile(`what was accepted last|the default policy is in force`)

func wrongPolicy(said Said, s State) []string {
	if !said.judges() {
		return nil
	}
	switch says := lastGood.MatchString(strings.Join(strings.Fields(said.Text), " ")); {
	case s.Invalid() && !says:
		return []string{"the policy cannot be used, and it does not say so"}
	case !s.Invalid() && says:
		return []string{"the policy can be used"}
	}
	return nil
}

var notRead = regexp.MustCompile(`(?i)not (?:been )?read\b`)

func wrongFollowers(said Said, s State) (wrong []string) {
	if !said.judges() {
		return nil
	}
	behind := s.Behind()
	for _, pod := range behind {
		if !strings.Contains(said.Text, pod) {
			wrong = append(wrong, pod+" has not read the policy, and it does not say so")
		}
	}
	if len(behind) == 0 && notRead.MatchString(said.Text) {
		wrong = append(wrong, "every process has read the policy")
	}
	return wrong
}
