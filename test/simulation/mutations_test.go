package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mutation is one change to the product, its file as seen from package record, and the part of the model checker that has to find it within small bounds.
type mutation struct {
	file, from, to string
	part           string
	args           []string
}

// TestTheModelCheckerFindsEachMutation runs the model checker with a rule that is wrong, one way after the other.
func TestTheModelCheckerFindsEachMutation(t *testing.T) {
	longer := []string{"-objects", "2", "-length", "7"}
	losses := []string{"-objects", "2", "-edits", "3", "-faults", "1", "-captures", "1", "-length", "0"}
	returns := []string{"-objects", "3", "-edits", "2", "-faults", "1", "-captures", "1", "-length", "0"}
	tests := map[string]mutation{
		"an older state counts as a client's newest decision":                  {"merge.go", "case shown && !equal && !late:", "case shown && !equal:", "annotations", nil},
		"an entry gives way to an older observation":                           {"merge.go", "if e.Version < o.Version ||", "if e.Version != 0 ||", "annotations", nil},
		"a taint that was set back is lost":                                    {"merge.go", "case late && !equal && confirmed && (taint || listed.Owners != \"\") && !changed:", "case changed && false:", "taint-orders", longer},
		"the kubelet's own value makes a late edit a removal":                  {"merge.go", "case late && !equal && confirmed && shown:", "case false:", "kubelet-orders", nil},
		"a late value that was removed since stays unknown":                    {"merge.go", "case shown && !equal: // 5", "case false: // 5", "annotations", nil},
		"the stamp proves no removal":                                          {"merge.go", "case !shown && (confirmed || ruled && remembered):", "case !shown && ruled && remembered:", "label-edits", nil},
		"a taint that is set back to the listed value is not seen":             {"merge.go", "case equal && shownHere && listed.Version < e.Version:", "case false:", "taint-orders", longer},
		"a PATCH of a stale capture hides a removal":                           {"merge.go", "case equal && shownHere && remembered && listed.Version >= e.Version:", "case false:", "label-orders", nil},
		"nodekeep takes its own value for a client's":                          {"merge.go", "equal := shown && o.untouched(e.Key)", "equal := false", "label-edits", nil},
		"a removal on the recorded object is missed":                           {"merge.go", "case !shown && shownHere && remembered:", "case false:", "label-edits", nil},
		"what a new object lacks counts as removed":                            {"merge.go", "case !shown && shownHere && remembered:", "case !shown && remembered:", "label-edits", nil},
		"the kubelet's own value is recorded":                                  {"merge.go", "case item.Owner == OtherOwner || item.Owner == Absent:", "case item.Owner == Absent:", "kubelet-orders", nil},
		"a taint by a rule is recorded":                                        {"observation.go", "if !present || item.Owner == Rule {", "if !present {", "rules", nil},
		"a label that the Node brought proves no removal":                      {"observation.go", "	listed.Value, ok = o.Stamp.Brought[key]\n", "", "kubelet-orders", nil},
		"another admission policy's label says nothing":                        {"observation.go", "if _, set := o.Stamp.Given[key]; !set && !IsTaint(key) {", "if false {", "label-orders", nil},
		"a client that applies the same value is not seen":                     {"observation.go", "item.Owners.subsetOf(listed.Owners)", "true", "label-orders", nil},
		"a client that applies as well as the owner is not seen":               {"observation.go", "item.Owners.subsetOf(listed.Owners)", "true", "owners", []string{"-length", "0"}},
		"an owner that is restored counts as a client's":                       {"observation.go", "item.Owners.subsetOf(listed.Owners)", "item.Owners == \"\"", "owners", []string{"-length", "0"}},
		"a label that its owner set back is lost":                              {"merge.go", "(taint || listed.Owners != \"\")", "taint", "owner-orders", longer},
		"versions below the floor belong to the next object":                   {"record.go", "if e.Version <= r.Floor {", "if false {", "machines", nil},
		"the quarantined side learns of the new machine":                       {"earlier.go", "r.WholeRecordQuarantined() && unknown && (knows", "r.WholeRecordQuarantined() && (true || knows", "machines", nil},
		"the quarantined side learns nothing more":                             {"earlier.go", "if r.WholeRecordQuarantined() && unknown &&", "if false &&", "machines", nil},
		"a machine that begins gets what the one before had":                   {"../policy/machine.go", "return record.SetAside(r, seen, floor, p.EarlierRetention(now)), NewMachine", "return r, Stays", "earlier", nil},
		"a machine that returns begins with nothing":                           {"../policy/machine.go", "found {\n\t\t\treturn returned, Returns", "found && false {\n\t\t\treturn returned, Returns", "earlier-objects", returns},
		"a late observation of a machine before counts for the next one":       {"merge.go", "o.Version <= r.Floor || o.ofMachineBefore(r)", "o.Version <= r.Floor", "earlier", nil},
		"a late observation counts for the machine that took the name":         {"../policy/machine.go", "r.Floor = max(r.Floor, floor)", "", "machines", []string{"-edits", "3", "-length", "0"}},
		"a late observation of a machine before is lost":                       {"earlier.go", "r.Earlier[i] = count(r.Earlier[i])", "", "earlier", nil},
		"the first late observation of a machine before is lost":               {"earlier.go", "o.Final || !first.Blank()", "false", "earlier", nil},
		"the last state of a machine that nothing is recorded of is lost":      {"earlier.go", "o.Final || !first.Blank()", "!first.Blank()", "earlier", []string{"-faults", "2", "-length", "0"}},
		"a third machine gets what the second one had":                         {"quarantine.go", "next = SetAside(fresh, machine, floor, k)", "next = fresh", "machines-objects", []string{"-objects", "4", "-captures", "1", "-edits", "2", "-faults", "0", "-length", "0"}},
		"a removal on a machine before is forgotten":                           {"record.go", "len(r.Entries)+len(r.RuleLabels)", "len(r.RuleLabels)", "earlier", []string{"-objects", "3", "-edits", "3", "-faults", "2", "-captures", "1", "-length", "0"}},
		"what an operator refused is restored":                                 {"quarantine.go", "accepted.Floor = live.Version - 1", "", "machines", []string{"-objects", "3", "-edits", "1", "-faults", "0"}},
		"a removed key is restored":                                            {"write.go", "!e.Removed && !present", "!present", "label-edits", nil},
		"a value that the Node brought is overwritten":                         {"write.go", "!e.Removed && !present && (lost", "!e.Removed && (!present || true) && (lost", "annotations", nil},
		"a stale value stays on the Node":                                      {"write.go", "case e.Value != o.Items[key].Value:", "case false:", "label-edits", nil},
		"a removed key that was restored stays on the Node":                    {"write.go", "case e.Removed:", "case false:", "label-edits", nil},
		"what a client changed is corrected":                                   {"write.go", "!o.untouched(key)", "false", "label-edits", nil},
		"the Node changes while it is in quarantine":                           {"write.go", "if r.WholeRecordQuarantined() {", "if false {", "machines-objects", []string{"-objects", "3", "-edits", "2", "-faults", "0", "-length", "0"}},
		"the end of an object is not written":                                  {"write.go", "case final && prev.Observed(o.UID) < next.Observed(o.UID):", "case final && false:", "annotations", nil},
		"a record is renamed before the Node has the new key":                  {"../policy/migrations.go", "known && !old.Removed && shown && value == old.Value &&", "known && !old.Removed && (value == old.Value || !shown) &&", "renames", []string{"-length", "0"}},
		"the old key stays on the Node":                                        {"../policy/migrations.go", "return renamed && shown && value == node.Items[m.From]", "return false && renamed && shown && value == node.Items[m.From]", "renames", []string{"-length", "0"}},
		"the record of a Node that is away is not renamed":                     {"../observe/renames.go", "{ return m.Phase == policy.MigrateNew }", "{ return false }", "renames", []string{"-length", "0"}},
		"a label that is set back to what a rule had set is not seen":          {"merge.go", "case item.Owner == OtherOwner && ruled && shownHere && first < e.Version:", "case false && first > 0:", "label-rules", []string{"-length", "0"}},
		"the new key of a migration that is set back is not seen":              {"merge.go", "case item.Owner == OtherOwner && ruled && shownHere && first < e.Version:", "case false && first > 0:", "renames-edits", []string{"-length", "0"}},
		"what a rule replaces is forgotten":                                    {"merge.go", "case item.Owner == OtherOwner && ruled && shownHere && first < e.Version:", "case item.Owner == OtherOwner && ruled && shownHere:", "label-rules-win", []string{"-length", "0"}},
		"a label that is removed again, as a rule had removed it, is not seen": {"merge.go", "case item.Owner == Absent && ruled && shownHere && first < e.Version:", "case false:", "label-rules-absent", []string{"-length", "0"}},
		"that a rule sets a label again is not listed":                         {"../plan/rules.go", "if listed && !p.changedByRule(key) && old.Value", "if listed && old.Value", "label-rules-win", []string{"-length", "0"}},
		"a lost record removes from the Node what it does not know":            {"write.go", "case !known || !e.newerThan(given):", "case known && !e.newerThan(given):\n\t\tcase !known:\n\t\t\tremove = append(remove, key)", "losses", losses},
		"an older record corrects the Node":                                    {"write.go", "case !known || !e.newerThan(given):", "case !known || false && e.newerThan(given):", "losses", losses},
		"what a lost record had is not learnt from the Node":                   {"merge.go", "case equal && o.outlives(e, known, unknown):", "case false:", "losses", losses},
		"what is learnt counts as decided on the Node":                         {"record.go", "if version > r.Floor && !r.presumes(version) {", "if false {", "losses", losses},
		"what decided a value is observed too late":                            {"merge.go", "e.Version == o.Version && presumed", "false", "label-orders", nil},
		"an object that was there before and after is not known":               {"record.go", "0 < known && known < p && p < version", "0 < known && false", "losses-again", []string{"-objects", "2", "-edits", "3", "-faults", "0", "-length", "0"}},
		"what the old machine had stays on the new one":                        {"quarantine.go", "!known && e.Version > 0", "!known && false", "machines-objects", []string{"-objects", "3", "-edits", "1", "-faults", "1", "-length", "0"}},
		"the object of an entry is not written":                                {"write.go", " || prev.DecidedOn(old) != next.DecidedOn(e)", "", "annotations", nil},
	}
	binary, numbers := build(t, tests)
	right := map[string]bool{} // what was explored without a mutation
	for name, m := range tests {
		t.Run(name, func(t *testing.T) {
			args := m.args
			if args == nil {
				args = []string{"-objects", "2", "-edits", "2", "-faults", "1", "-length", "5"}
			}
			args = append([]string{"-only", m.part}, args...)
			if explores := strings.Join(args, " "); !right[explores] {
				out, found := explored(t, binary, 0, args)
				require.False(t, found, "without the mutation nothing is wrong:\n%s", out)
				right[explores] = true
			}
			out, found := explored(t, binary, numbers[name], args)
			assert.True(t, found, "the model checker does not find it:\n%s", out)
			assert.Contains(t, out, "VIOLATION in "+m.part)
		})
	}
}

// build makes the model checker with all mutations, and returns the number of each.
func build(t *testing.T, mutations map[string]mutation) (binary string, numbers map[string]int) {
	t.Helper()
	all, numbers := mutants{bodies: map[string]map[int]string{}, copies: map[string][]string{}}, map[string]int{}
	for i, name := range slices.Sorted(maps.Keys(mutations)) {
		m := mutations[name]
		path, err := filepath.Abs(filepath.Join("..", "..", "record", m.file))
		require.NoError(t, err)
		numbers[name] = i + 1
		all.add(t, numbers[name], path, m.from, m.to)
	}
	return all.build(t), numbers
}

// explored runs the model checker with a mutation, or without one (0), and reports whether it found something wrong.
func explored(t *testing.T, binary string, number int, args []string) (out string, found bool) {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = append(os.Environ(), mutantVariable+"="+strconv.Itoa(number), "GOGC=400") // a quarter less CPU, for memory that is there
	output, err := command.CombinedOutput()
	if err == nil {
		return string(output), false
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode(), "%s", output)
	return string(output), true
}
