package verify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"
)

var ledgerStart = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func removal(name string, pos time.Duration) verify.Removal {
	return verify.Removal{Node: name, UID: "uid-" + name, Kind: verify.RemoveNode, Profile: "gpu", Time: ledgerStart.Add(pos)}
}

func done(entry verify.Removal) verify.Removal {
	entry.Done = true
	return entry
}

func limitsOf(t *testing.T, text string) verify.CompiledLimits {
	t.Helper()
	profiles, errs := compile(read(t, "limits: "+text))
	require.Empty(t, errs)
	return profiles.Limits
}

func TestARemovalFitsOrABrakeSaysUntilWhen(t *testing.T) {
	hour := limitsOf(t, "{deletionsPerHour: 3}")
	empty := verify.BrakeOf(verify.BrakeBudget, "they allow none")
	three := []verify.Removal{done(removal("a", 0)), done(removal("b", 10*time.Minute)), done(removal("c", 20*time.Minute))}
	for name, row := range map[string]struct {
		ledger []verify.Removal
		next   verify.Removal
		limits verify.CompiledLimits
		nodes  int
		brake  *verify.Brake
	}{
		"the first one":                               {next: removal("a", 0), limits: hour, nodes: 1},
		"the fourth one of an hour":                   {ledger: three, next: removal("d", 30*time.Minute), limits: hour, nodes: 100, brake: &verify.Brake{Reason: verify.BrakeBudget, End: ledgerStart.Add(time.Hour)}},
		"the fourth one after an hour":                {ledger: three, next: removal("d", time.Hour), limits: hour, nodes: 100},
		"the third one of 20 Nodes":                   {ledger: three[:2], next: removal("d", 30*time.Minute), limits: hour, nodes: 20, brake: &verify.Brake{Reason: verify.BrakeBudget, End: ledgerStart.Add(time.Hour)}},
		"the second one of 20 Nodes":                  {ledger: three[:1], next: removal("d", 30*time.Minute), limits: hour, nodes: 20},
		"the second one of 3 Nodes":                   {ledger: three[:1], next: removal("d", 30*time.Minute), limits: hour, nodes: 3, brake: &verify.Brake{Reason: verify.BrakeBudget, End: ledgerStart.Add(time.Hour)}},
		"too soon after another":                      {ledger: three[:1], next: removal("d", 14*time.Minute), limits: limitsOf(t, "{}"), nodes: 100, brake: &verify.Brake{Reason: verify.BrakeCooldown, End: ledgerStart.Add(15 * time.Minute)}},
		"after the cooldown":                          {ledger: three[:1], next: removal("d", 15*time.Minute), limits: limitsOf(t, "{}"), nodes: 100},
		"the same name within 24 h":                   {ledger: three[:1], next: verify.Removal{Node: "a", UID: "other", Time: ledgerStart.Add(23 * time.Hour)}, limits: hour, nodes: 100, brake: &verify.Brake{Reason: verify.BrakeSameNode, End: ledgerStart.Add(24 * time.Hour)}},
		"the same name after 24 h":                    {ledger: three[:1], next: verify.Removal{Node: "a", UID: "other", Time: ledgerStart.Add(24 * time.Hour)}, limits: hour, nodes: 100},
		"the same object once it is done":             {ledger: three[:1], next: removal("a", time.Hour), limits: hour, nodes: 100, brake: &verify.Brake{Reason: verify.BrakeSameNode, End: ledgerStart.Add(24 * time.Hour)}},
		"limits that were never compiled":             {next: removal("a", 30*time.Minute), nodes: 100, brake: empty},
		"the same after another":                      {ledger: three[:1], next: removal("b", 30*time.Minute), nodes: 100, brake: empty},
		"no removals an hour":                         {next: removal("a", 30*time.Minute), limits: limitsOf(t, "{deletionsPerHour: 0}"), nodes: 100, brake: empty},
		"the removals of an hour are spread over it":  {ledger: three[:1], next: removal("d", 44*time.Minute), limits: limitsOf(t, "{deletionsPerHour: 1}"), nodes: 100, brake: &verify.Brake{Reason: verify.BrakeBudget, End: ledgerStart.Add(time.Hour)}},
		"many removals of an hour, a minute apart":    {ledger: three[:1], next: removal("d", time.Minute), limits: limitsOf(t, "{deletionsPerHour: 45}"), nodes: 1000},
		"many removals of an hour, sooner":            {ledger: three[:1], next: removal("d", 59*time.Second), limits: limitsOf(t, "{deletionsPerHour: 45}"), nodes: 1000, brake: &verify.Brake{Reason: verify.BrakeCooldown, End: ledgerStart.Add(time.Minute)}},
		"many removals of an hour in a small cluster": {ledger: three[:1], next: removal("d", 4*time.Minute), limits: limitsOf(t, "{deletionsPerHour: 50}"), nodes: 100, brake: &verify.Brake{Reason: verify.BrakeCooldown, End: ledgerStart.Add(4*time.Minute + 30*time.Second)}},
		"one that was not finished":                   {ledger: []verify.Removal{removal("a", 0)}, next: removal("a", time.Second), limits: hour, nodes: 3},
		"one that was not finished, and others since": {ledger: []verify.Removal{removal("a", 0), removal("b", 0)}, next: removal("a", time.Minute), limits: hour, nodes: 3, brake: &verify.Brake{Reason: verify.BrakeBudget, End: ledgerStart.Add(time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.brake, verify.Ledger{Removals: row.ledger}.Holds(row.next, row.limits, row.nodes, row.next.Time))
		})
	}
}

func TestRemovedNodesCountAsFailing(t *testing.T) {
	nodes := func(count, failing int) map[string]bool {
		all := map[string]bool{}
		for i := range count {
			all[fmt.Sprintf("uid-%d", i)] = i < failing
		}
		return all
	}
	fn := func(name, profile string) verify.Removal {
		return verify.Removal{Node: name, UID: "uid-" + name, Kind: verify.RemoveNode, Profile: profile, Time: ledgerStart}
	}
	for name, row := range map[string]struct {
		ledger   []verify.Removal
		existing map[string]bool
		limits   string
		delay    time.Duration
		tooMany  bool
	}{
		"one of five":                          {existing: nodes(5, 1), limits: "{}"},
		"two of nine":                          {existing: nodes(9, 2), limits: "{}", tooMany: true},
		"one of four":                          {existing: nodes(4, 1), limits: "{}", tooMany: true},
		"a number of Nodes":                    {existing: nodes(4, 2), limits: "{stopAbove: 2}"},
		"more than a number of Nodes":          {existing: nodes(40, 3), limits: "{stopAbove: 2}", tooMany: true},
		"none may fail":                        {existing: nodes(40, 1), limits: "{stopAbove: 0}", tooMany: true},
		"one failing, one removed, of nine":    {ledger: []verify.Removal{fn("gone", "gpu")}, existing: nodes(8, 1), limits: "{}", tooMany: true},
		"one failing, one removed, of ten":     {ledger: []verify.Removal{fn("gone", "gpu")}, existing: nodes(9, 1), limits: "{}"},
		"removed from another profile":         {ledger: []verify.Removal{fn("gone", "other")}, existing: nodes(8, 1), limits: "{}"},
		"removed more than a day ago":          {ledger: []verify.Removal{fn("gone", "gpu")}, existing: nodes(8, 1), limits: "{}", delay: 24 * time.Hour},
		"being removed, and failing":           {ledger: []verify.Removal{fn("0", "gpu")}, existing: nodes(5, 1), limits: "{}"},
		"being removed, and no longer failing": {ledger: []verify.Removal{fn("4", "gpu")}, existing: nodes(5, 1), limits: "{}", tooMany: true},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := verify.Ledger{Removals: row.ledger}
			assert.Equal(t, row.tooMany, ledger.TooMany("gpu", row.existing, limitsOf(t, row.limits), ledgerStart.Add(row.delay)))
		})
	}
}

func TestALedgerKeepsTheRemovalsOfADay(t *testing.T) {
	ledger := verify.Ledger{}.Add(removal("a", 0), ledgerStart).Add(removal("b", time.Hour), ledgerStart.Add(time.Hour))
	reread := removal("a", 2*time.Hour)
	ledger = ledger.Add(reread, reread.Time).Finished("uid-b")
	assert.Equal(t, []verify.Removal{reread, done(removal("b", time.Hour))}, ledger.Removals, "one that is not done counts from now on")
	assert.Equal(t, ledger, ledger.Add(removal("b", 3*time.Hour), reread.Time), "one that is done counts from when it was made")
	read, err := verify.ParseLedger(ledger.String())
	require.NoError(t, err)
	assert.Equal(t, ledger, read)
	ledger = ledger.Add(removal("c", 25*time.Hour), ledgerStart.Add(25*time.Hour))
	assert.Equal(t, []verify.Removal{reread, removal("c", 25*time.Hour)}, ledger.Removals)
}

func TestALedgerThatIsNoneIsRefused(t *testing.T) {
	whole := `{"node":"a","uid":"u","kind":"node","profile":"gpu","time":"2026-11-24T12:00:00Z"}`
	list := func(entries ...string) string { return `{"removals":[` + strings.Join(entries, ",") + `]}` }
	_, err := verify.ParseLedger(list(whole))
	require.NoError(t, err)
	_, err = verify.ParseLedger("")
	require.NoError(t, err)
	var plural []string
	for i := range 1300 {
		plural = append(plural, strings.Replace(whole, `"u"`, fmt.Sprintf(`"u%d"`, i), 1))
	}
	for says, text := range map[string]string{
		"not a list of removals": "{",
		"unknown or repeated":    list(strings.Replace(whole, "{", `{"more":1,`, 1)),
		"node is not the name":   list(strings.Replace(whole, `"a"`, `"A b"`, 1)),
		"uid is empty":           list(strings.Replace(whole, `"u"`, `""`, 1)),
		"kind is unknown":        list(strings.Replace(whole, `"node","profile"`, `"keep","profile"`, 1)),
		"profile is not":         list(strings.Replace(whole, `"gpu"`, `""`, 1)),
		"time is missing":        list(strings.Replace(whole, `,"time":"2026-11-24T12:00:00Z"`, "", 1)),
		"there twice":            list(whole, whole),
		"bytes, more than":       strings.Repeat(" ", 1<<20),
		"entries, more than":     list(plural...),
		"not UTF-8":              "\xff",
	} {
		_, err := verify.ParseLedger(text)
		assert.ErrorContains(t, err, says)
	}
}

func FuzzParseLedger(f *testing.F) {
	f.Add(verify.Ledger{Removals: []verify.Removal{removal("a", 0)}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		ledger, err := verify.ParseLedger(text)
		if err != nil {
			require.Empty(t, ledger.Removals)
			return
		}
		reread, err := verify.ParseLedger(ledger.String())
		require.NoError(t, err)
		require.Equal(t, ledger.String(), reread.String())
		ledger.Holds(removal("a", 0), verify.CompiledLimits{}, 0, ledgerStart)
	})
}
