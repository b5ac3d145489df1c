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

// Output is what a command has printed, on both outputs, and how it ended.
type Output struct {
	Command []string // without the program: "show", "worker-1", "--diff"
	Text    string
	Code    int
}

// views are the flags by which a command answers something else than without them.
var views = []string{"--waiting", "--history", "--diff", "--verification"}

// matches reports whether this is the command of that name, with this view (empty: with none), whatever other arguments it has.
func (s Output) matches(name, view string) bool {
	if len(s.Command) == 0 || s.Command[0] != name {
		return false
	}
	given := ""
	for i, word := range s.Command {
		switch {
		case word == "--waiting":
			given = word + " " + s.Command[i+1]
		case slices.Contains(views, word):
			given = word
		}
	}
	return given == view
}

// statement is a kind of sentence: where a command says one, it must be true.
type statement struct {
	about   string
	command string // its name; empty: every command
	view    string // the flag by which it answers this
	wrong   func(out Output, s State) []string
}

// statements are all that the checker knows.
var statements = []statement{
	{"the Nodes of a list, their status and their gate", "list", "", wrongList},
	{"the Nodes behind the gate", "list", "--waiting gate", wrongGate},
	{"differences between a Node and its record", "show", "--diff", wrongDifferences},
	{"what a record has", "show", "", wrongRecord},
	{"where a Node stands", "explain", "", wrongExplanation},
	{"which Nodes take workloads", "list", "--waiting verification", wrongVerification},
	{"whether a Node takes workloads", "show", "--verification", wrongVerifiedNode},
	{"the last change of each item", "show", "--history", wrongHistory},
	{"how many Nodes there are", "report", "", wrongReport},
	{"checks that are ok", "doctor", "", wrongDoctor},
	{"an emergency", "", "", wrongEmergency},
	{"a policy that cannot be used", "", "", wrongPolicy},
	{"which processes have not read the policy", "", "", wrongReplicas},
}

// Untrue names each statement of a command that is true in none of these states. The API server had them while the command ran. It is empty if the
// command said nothing untrue.
func Untrue(out Output, states ...State) []string {
	var untrue []string
	for _, statement := range statements {
		if statement.command != "" && !out.matches(statement.command, statement.view) {
			continue
		}
		var fewest []string
		for i, state := range states {
			if wrong := statement.wrong(out, state); i == 0 || len(wrong) < len(fewest) {
				fewest = wrong
			}
		}
		for _, wrong := range fewest {
			untrue = append(untrue, statement.about+": "+wrong)
		}
	}
	return untrue
}

func wrongList(out Output, s State) (wrong []string) {
	if out.Code != 0 {
		return nil
	}
	want := map[string]bool{}
	for name := range s.Records {
		want[name] = true
	}
	for name := range s.Nodes {
		want[name] = true
	}
	rows := rowsOf(out.Text, "NAME", "STATUS", "LABELS", "GATED")
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

func wrongGate(out Output, s State) []string {
	return wrongSet("behind the gate", rowsOf(out.Text, "NAME", "GATED"), s.tainted(gateKey))
}

// wrongSet compares the names in rows with those that there are.
func wrongSet(subject string, rows []row, want []string) (wrong []string) {
	var found []string
	for _, row := range rows {
		found = append(found, row["NAME"])
	}
	for _, name := range want {
		if !slices.Contains(found, name) {
			wrong = append(wrong, fmt.Sprintf("Node %s is %s, and is missing", name, subject))
		}
	}
	for _, name := range found {
		if !slices.Contains(want, name) {
			wrong = append(wrong, fmt.Sprintf("Node %s is not %s", name, subject))
		}
	}
	return wrong
}

// subject returns the Node that a command is about: its first argument that is no flag.
func (s Output) subject() string {
	for _, word := range s.Command[1:] {
		if !strings.HasPrefix(word, "-") {
			return word
		}
	}
	return ""
}

// wrongColumns compares the columns NODE and RECORD of a table of items.
func wrongColumns(rows []row, node string, s State) (wrong []string) {
	recorded := s.Records[node].Items()
	for _, row := range rows {
		item := row["KEY"]
		if column, ok := row["NODE"]; ok {
			if value := cell(shown(s.Nodes[node], item)); column != value {
				wrong = append(wrong, fmt.Sprintf("Node %s has %s %s, and not %s", node, item, value, column))
			}
		}
		if column, ok := row["RECORD"]; ok {
			value, kept := recorded[item]
			if got := cell(value, kept); column != got {
				wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s %s, and not %s", node, item, got, column))
			}
		}
	}
	return wrong
}

func wrongDifferences(out Output, s State) []string {
	node := out.subject()
	wrong := wrongColumns(rowsOf(out.Text, "KEY", "RECORD", "NODE"), node, s)
	if strings.Contains(out.Text, "No differences.") && s.Nodes[node] != nil {
		for item, value := range s.Records[node].Items() {
			if got, ok := shown(s.Nodes[node], item); !ok || got != value {
				wrong = append(wrong, fmt.Sprintf("Node %s differs in %s: it has %s, and the record %q", node, item, cell(got, ok), value))
			}
		}
	}
	return wrong
}

// wrongStatus compares the line Status.
func wrongStatus(out Output, node string, s State) []string {
	status, _, _ := strings.Cut(factOf(out.Text, "Status"), ",")
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
	foreign := func(key string) bool {
		return strings.HasPrefix(key, "node-role.") || !strings.Contains(key, "kubernetes.io/") && !strings.HasPrefix(key, "nodekeep.dev/")
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(node.Labels)), foreign) ||
		slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return foreign(taint.Key) })
}

func wrongRecord(out Output, s State) []string {
	node := out.subject()
	wrong := wrongStatus(out, node, s)
	if out.Code != 0 {
		return wrong
	}
	items := s.Records[node].Items()
	for _, row := range rowsOf(out.Text, "RECORDED", "KEY", "VALUE", "STATE") {
		value, ok := items[row["KEY"]]
		if got := cell(value, ok); row["VALUE"] != got {
			wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s %s, and not %s", node, row["KEY"], got, row["VALUE"]))
		}
		delete(items, row["KEY"])
	}
	for _, item := range slices.Sorted(maps.Keys(items)) {
		wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s, which is missing", node, item))
	}
	return wrong
}

func wrongExplanation(out Output, s State) []string {
	node := out.subject()
	wrong := append(wrongStatus(out, node, s), wrongColumns(rowsOf(out.Text, "ITEM", "KEY", "NODE", "RECORD"), node, s)...)
	runs := len(s.Pods[captureProcess]) > 0 || s.Leader != ""
	if out.Code == 0 && s.Nodes[node] != nil && noneRuns.MatchString(out.Text) == runs {
		wrong = append(wrong, fmt.Sprintf("capture runs: %v", runs))
	}
	return wrong
}

// noneRuns is how a command says that no capture runs.
var noneRuns = regexp.MustCompile(`(?i)no capture (runs|leads|has)`)

func wrongVerification(out Output, s State) (wrong []string) {
	closed := s.tainted(unverifiedKey)
	for _, row := range rowsOf(out.Text, "NAME", "STATE", "WHY") {
		wrong = append(wrong, wrongOpening(row["NAME"], row["STATE"], row["WHY"], s)...)
		closed = slices.DeleteFunc(closed, func(name string) bool { return name == row["NAME"] })
	}
	if out.Code != 0 {
		return wrong
	}
	for _, name := range closed {
		wrong = append(wrong, "Node "+name+" waits for verification, and is missing")
	}
	return append(wrong, wrongController(out, len(s.tainted(unverifiedKey)) > 0, s)...)
}

// noController is how a command says that no Node is checked.
var noController = regexp.MustCompile(`No verification controller has`)

// wrongController compares what a command about Nodes that wait says of the controller.
func wrongController(out Output, waits bool, s State) []string {
	if runs := len(s.Pods[verifyProcess]) > 0; waits && !s.Emergency && noController.MatchString(out.Text) == runs {
		return []string{fmt.Sprintf("a verification controller runs: %v", runs)}
	}
	return nil
}

// wrongOpening compares the state of a Node's verification with its taint. An old worker Pod keeps no Node from being open.
func wrongOpening(name, state, reason string, s State) []string {
	node := s.Nodes[name]
	if node == nil {
		return []string{"there is no Node " + name}
	}
	open := state == "open" || state == "verified" || state == "failing"
	if open == hasTaint(node, unverifiedKey) {
		return []string{fmt.Sprintf("Node %s is %q, and has the taint of verification: %v", name, state, !open)}
	}
	if open && strings.Contains(reason, "old worker Pod") {
		return []string{fmt.Sprintf("Node %s is open, and no worker Pod is the reason: %s", name, reason)}
	}
	return nil
}

func wrongVerifiedNode(out Output, s State) []string {
	node, state := out.subject(), factOf(out.Text, "State")
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
	return append(wrongOpening(node, state, factOf(out.Text, "Why"), s), wrongController(out, waits, s)...)
}

func wrongHistory(out Output, s State) (wrong []string) {
	node := out.subject()
	items := s.Records[node].Items()
	last := map[string]string{}
	for _, row := range rowsOf(out.Text, "NUMBER", "KEY", "TO") {
		last[row["KEY"]] = row["TO"]
	}
	for _, item := range slices.Sorted(maps.Keys(last)) {
		value, ok := items[item]
		if got := cell(value, ok); got != last[item] {
			wrong = append(wrong, fmt.Sprintf("the record of Node %s has %s %s, and not %s", node, item, got, last[item]))
		}
	}
	return wrong
}

func wrongReport(out Output, s State) []string {
	if nodes := factOf(out.Text, "Nodes"); nodes != "" && nodes != strconv.Itoa(len(s.Nodes)) {
		return []string{fmt.Sprintf("there are %d Nodes, and not %s", len(s.Nodes), nodes)}
	}
	return nil
}

// doctorMayNotSayOK are checks of doctor that may not be ok in a state.
var doctorMayNotSayOK = map[string]func(s State) (reason string){
	"webhook-answers": func(s State) string { return conditional(len(s.Pods[webhookProcess]) == 0, "no webhook runs") },
	"leader": func(s State) string {
		return conditional(s.Leader == "" && len(s.Pods[captureProcess]) == 0, "no capture runs")
	},
	"verification": func(s State) string {
		return conditional(len(s.Pods[verifyProcess]) == 0, "no controller of verification runs")
	},
	"policy": func(s State) string {
		return conditional(s.Invalid() || len(s.Behind()) > 0, "it cannot be used, or a process has not read it")
	},
	"closed-nodes": func(s State) string {
		closed := len(s.tainted(gateKey))
		return conditional(len(s.Nodes) > 0 && closed == len(s.Nodes), "every Node is behind the gate")
	},
	"emergency": func(s State) string { return conditional(s.Emergency, "there is an emergency") },
}

func conditional(applies bool, reason string) string {
	if applies {
		return reason
	}
	return ""
}

var gatedCount = regexp.MustCompile(`^(\d+) of (\d+) Nodes are behind the gate`)

func wrongDoctor(out Output, s State) (wrong []string) {
	for _, row := range rowsOf(out.Text, "CHECK", "STATUS", "WHAT") {
		check, message := row["CHECK"], row["WHAT"]
		if row["STATUS"] != "ok" {
			continue
		}
		if forbids, known := doctorMayNotSayOK[check]; known {
			if reason := forbids(s); reason != "" {
				wrong = append(wrong, fmt.Sprintf("%s is not ok (%q): %s", check, message, reason))
			}
		}
		if counts := gatedCount.FindStringSubmatch(message); counts != nil &&
			(counts[1] != strconv.Itoa(len(s.tainted(gateKey))) || counts[2] != strconv.Itoa(len(s.Nodes))) {
			wrong = append(wrong, fmt.Sprintf("%d of %d Nodes are behind the gate, and not %s of %s", len(s.tainted(gateKey)), len(s.Nodes), counts[1], counts[2]))
		}
		if leader, ok := strings.CutSuffix(message, " leads"); check == "leader" && ok && s.Leader != "" && !strings.HasPrefix(s.Leader, leader) {
			wrong = append(wrong, fmt.Sprintf("%s leads, and not %s", s.Leader, leader))
		}
	}
	if out.Code == 0 && (s.Invalid() || s.Emergency || len(s.Pods[webhookProcess]) == 0 || len(s.Pods[captureProcess]) == 0) {
		wrong = append(wrong, "it ends as if all were well")
	}
	return wrong
}

// judges reports whether a command decides by the policy, and so must say what stands in the way.
func (s Output) judges() bool {
	return s.matches("explain", "") || s.matches("show", "--diff") || s.matches("list", "--waiting verification") || s.matches("show", "--verification") || s.matches("list", "--waiting gate") || s.matches("doctor", "")
}

// checksIt is how a command says that another one has a Node checked.
var checksIt = regexp.MustCompile("recheck [^`]*` checks it")

// emergency is how a command says that there is one.
var emergency = regexp.MustCompile(`(?i)an emergency was declared`)

func wrongEmergency(out Output, s State) []string {
	if out.matches("emergency", "") || !out.judges() || out.matches("show", "--diff") {
		return nil
	}
	switch says := emergency.MatchString(out.Text); {
	case s.Emergency && checksIt.MatchString(out.Text):
		return []string{"recheck checks no Node now"}
	case s.Emergency && !says:
		return []string{"there is one, and it does not say so"}
	case !s.Emergency && says:
		return []string{"there is none"}
	}
	return nil
}

// lastGood is how a command says that it does not go by the NodePolicy.
var lastGood = regexp.MustCompile(`what was accepted last|the default policy is in force`)

func wrongPolicy(out Output, s State) []string {
	if !out.judges() {
		return nil
	}
	switch says := lastGood.MatchString(strings.Join(strings.Fields(out.Text), " ")); {
	case s.Invalid() && !says:
		return []string{"the policy cannot be used, and it does not say so"}
	case !s.Invalid() && says:
		return []string{"the policy can be used"}
	}
	return nil
}

var notRead = regexp.MustCompile(`(?i)not (?:been )?read\b`)

func wrongReplicas(out Output, s State) (wrong []string) {
	if !out.judges() {
		return nil
	}
	behind := s.Behind()
	for _, pod := range behind {
		if !strings.Contains(out.Text, pod) {
			wrong = append(wrong, pod+" has not read the policy, and it does not say so")
		}
	}
	if len(behind) == 0 && notRead.MatchString(out.Text) {
		wrong = append(wrong, "every process has read the policy")
	}
	return wrong
}
