package view

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

const removing = `verify:
  profiles:
  - {name: gpu, onFailure: nodeClaim, checks: [{name: api, api: {}}]}
`

// removedBefore returns a removal of so many minutes ago.
func removedBefore(node string, minutes int, done bool) verify.Removal {
	return verify.Removal{Node: node, UID: "U-" + node, Kind: verify.RemoveNodeClaim, Profile: "gpu", Time: noon.Add(-time.Duration(minutes) * time.Minute), Done: done}
}

func TestWhatHoldsEveryRemovalAndWhatWasRemovedLast(t *testing.T) {
	p := statetest.Load(t, removing).Verify()
	for name, row := range map[string]struct {
		removals []verify.Removal
		brake    verify.BrakeReason
		lines    []string
	}{
		"nothing was removed": {lines: nil},
		"one a moment ago": {[]verify.Removal{removedBefore("a", 4, true)}, verify.BrakeCooldown, []string{
			"No Node is removed now: Cooldown for another 11m: another Node was removed shortly before.", "Removed lately: a by nodeClaim 4m ago, profile gpu.",
		}},
		"as many as an hour has": {[]verify.Removal{removedBefore("a", 40, true), removedBefore("c", 30, true), removedBefore("b", 20, true)}, verify.BrakeBudget, []string{
			"No Node is removed now: Budget for another 20m: the removals of this hour are used up (verify.limits.deletionsPerHour, or one Node in ten).", "Removed lately: b by nodeClaim 20m ago, profile gpu; 2 more within 24 hours.",
		}},
		"some hours ago": {[]verify.Removal{removedBefore("a", 300, true)}, "", []string{"Removed lately: a by nodeClaim 5h ago, profile gpu."}},
		"one that was decided": {[]verify.Removal{removedBefore("a", 300, false)}, "", []string{
			"Removed lately: a by nodeClaim 5h ago, profile gpu (decided, not known to be done).",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			removals := RemovalsOf(verify.Ledger{Removals: row.removals}, p, 100, noon)
			assert.Equal(t, row.lines, removals.Lines(noon))
			if row.brake == "" {
				assert.Nil(t, removals.Brake)
			} else {
				assert.Equal(t, row.brake, removals.Brake.Reason)
			}
			text, err := json.Marshal(removals)
			require.NoError(t, err)
			assert.NotContains(t, string(text), "null")
		})
	}
}

func TestEachBrakeIsListedWithItsReasonAndUntilWhenItIsOpen(t *testing.T) {
	p := statetest.Load(t, removing)
	for _, reason := range verify.BrakeReasons() {
		brake := verify.Brake{Reason: reason, End: noon.Add(90 * time.Minute)}
		v := VerificationOf(annotated(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), held(t, p, brake)), nil, nil, p, noon)
		rows := (VerificationList{Items: []Verification{v}}).Document(noon).Tables[0].Rows
		require.NotEmpty(t, reason.Means(), reason)
		assert.Equal(t, "held: "+string(reason)+" for another 90m: "+reason.Means(), rows[0].Cells[8])
		text, err := json.Marshal(v)
		require.NoError(t, err)
		assert.Contains(t, string(text), `"removalHeld":{"reason":"`+string(reason)+`","until":"2026-`)
	}
}

func TestABrakeOfAProfileIsListedUntilItIsNoLongerSeen(t *testing.T) {
	for _, reason := range []verify.BrakeReason{verify.BrakeSharedFailure, verify.BrakeTooMany} {
		ledger, news := verify.Ledger{}.Seeing("gpu", reason, noon.Add(-time.Minute))
		require.True(t, news)
		open := RemovalsOf(ledger, statetest.Load(t, removing).Verify(), 10, noon)
		assert.Equal(t, []string{"No Node of profile gpu is removed now: " + string(reason) + " for another 60s: " + reason.Means() + "."}, open.Lines(noon))
		assert.Equal(t, noon.Add(time.Minute), open.Profiles[0].Brake.End)
		assert.Empty(t, RemovalsOf(ledger, statetest.Load(t, removing).Verify(), 10, noon.Add(time.Minute)).Lines(noon.Add(time.Minute)))
	}
}

// held returns the annotation of a Node that failed as often as it may, and whose removal is held.
func held(t *testing.T, p policy.Policy, brake verify.Brake) verify.Progress {
	t.Helper()
	profile := p.Verify().All()[0]
	return verify.Progress{
		Attempts: 5, Profile: profile.Name, Hash: profile.Hash, RemovalHeld: &brake,
		Last: &verify.Last{Result: verify.VerdictFailed, Check: "api", Message: "no answer", Time: noon.Add(-time.Second)},
	}
}

func TestANodeSaysWhyItIsNotRemovedAndThatItIs(t *testing.T) {
	const taint = "nodekeep.dev/unverified:NoSchedule"
	p := statetest.Load(t, removing)
	shownOf := func(progress verify.Progress) (Verification, Document) {
		v := VerificationOf(annotated(nodeToVerify(nil, taint), progress), nil, nil, p, noon)
		return v, NodeVerification{Node: "a", UID: "U1", Verification: &v}.Document(noon)
	}
	v, shown := shownOf(held(t, p, verify.Brake{Reason: verify.BrakePods, Message: "Pod default/web-1 runs on it"}))
	assert.Equal(t, verify.BrakePods, v.RemovalHeld.Reason)
	assert.Contains(t, shown.Facts, Fact{"Removal", "held: Pods: Pod default/web-1 runs on it"})
	assert.Contains(t, shown.Facts, Fact{"On failure", "removed by nodeClaim after 5 failed attempts"})

	progress := held(t, p, verify.Brake{Reason: verify.BrakePods})
	progress.RemovalHeld, progress.Removing = nil, verify.RemoveNodeClaim
	underWay, shown := shownOf(progress)
	assert.Contains(t, shown.Facts, Fact{"Removal", "under way, by nodeClaim"})

	// The column is there only where a Node has something in it.
	columns := func(items ...Verification) (names []string) {
		for _, column := range (VerificationList{Items: items}).Document(noon).Tables[0].ColumnDefinitions {
			names = append(names, column.Name)
		}
		return names
	}
	waiting := VerificationOf(nodeToVerify(nil, taint), nil, nil, p, noon)
	assert.NotContains(t, columns(waiting), "Removal")
	assert.Equal(t, "Removal", columns(waiting, v)[8])
	rows := VerificationList{Items: []Verification{waiting, v, underWay}}.Document(noon).Tables[0].Rows
	assert.Equal(t, []any{"-", "held: Pods: Pod default/web-1 runs on it", "under way, by nodeClaim"},
		[]any{rows[0].Cells[8], rows[1].Cells[8], rows[2].Cells[8]})

	reopened := held(t, p, verify.Brake{Reason: verify.BrakePods})
	reopened.Round = 1
	reread, _ := shownOf(reopened)
	assert.Empty(t, reread.OnFailure, "a Node that was open is never removed")

	// An open Node has nothing to be removed for, whatever its annotation says.
	open := VerificationOf(annotated(nodeToVerify(nil), held(t, p, verify.Brake{Reason: verify.BrakePods})), nil, nil, p, noon)
	assert.Nil(t, open.RemovalHeld)
	assert.Empty(t, open.OnFailure)
}

func TestARemovedNodeSaysWhenAndByWhat(t *testing.T) {
	removal := removedBefore("a", 5, true)
	gone := NodeVerification{Node: "a", Removals: []verify.Removal{removal}}
	assert.Equal(t, []Fact{{"Node", "a"}, {"State", "the Node is deleted"}, {"Removed", "by nodeClaim 5m ago, profile gpu"}}, gone.Document(noon).Facts)
	v := VerificationOf(nodeToVerify(nil, "nodekeep.dev/unverified:NoSchedule"), nil, nil, statetest.Load(t, removing), noon)
	reread := NodeVerification{Node: "a", UID: "U1", Verification: &v, Removals: []verify.Removal{removal}}
	assert.Contains(t, reread.Document(noon).Facts, Fact{"Removed", "by nodeClaim 5m ago, profile gpu, an earlier Node of this name"})
}
