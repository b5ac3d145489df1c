package verify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// removing has a profile remove Nodes at the second failed attempt.
func removing(profile *verify.Profile) {
	profile.OnFailure, profile.Attempts.Max = verify.RemoveNode, new(2)
}

// failedOnce returns the annotation after one failed attempt, as change leaves it.
func failedOnce(profiles verify.Profiles, change func(*verify.Progress)) string {
	progress := verify.Progress{
		Attempts: 1, Failed: 1, FailingSince: born, BootID: "b1", Hash: profiles.All()[0].Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "dns", Time: born},
	}
	if change != nil {
		change(&progress)
	}
	return progress.String()
}

// controlPod returns a control Pod that ended now; it was created so long after the worker Pod.
func controlPod(later time.Duration, code int, message string) *verify.Pod {
	pod := &verify.Pod{Name: "control-1", UID: "c1", Created: born.Add(time.Second + later)}
	ended(corev1.PodFailed, code, message)(pod)
	pod.Containers[0].Finished = born.Add(15 * time.Second)
	return pod
}

// controlOf returns what is known where only one verified Node can be asked, and was.
func controlOf(later time.Duration, code int, message string) verify.Control {
	return asked(1, controlPod(later, code, message))
}

func TestANodeIsRemovedOnlyWhereAllOfTheConditionsHold(t *testing.T) {
	early := born.Add(20 * time.Second)
	smi := func(pod *verify.Pod) {
		ended(corev1.PodFailed, 0, passes)(pod)
		pod.Containers = append(pod.Containers, verify.ContainerState{Name: "smi", Ended: true, ExitCode: 1})
	}
	combined := func(profile *verify.Profile) { removing(profile); withTwo(profile) }
	passed := controlOf(0, 0, passes)
	for name, test := range map[string]struct {
		profile  func(*verify.Profile)
		progress func(*verify.Progress)
		node     func(*verify.Node)
		opened   bool
		pod      func(*verify.Pod)
		control  *verify.Control
		want     verify.Operation
		held     verify.BrakeReason
		requeue  time.Time
		now      time.Time // soon, if it is zero
	}{
		"all hold":                       {want: verify.DoRemove},
		"the profile keeps Nodes":        {profile: func(p *verify.Profile) { p.Attempts.Max = new(2) }, want: verify.DoRecord},
		"an attempt is left":             {profile: func(p *verify.Profile) { removing(p); p.Attempts.Max = new(3) }, want: verify.DoRecord},
		"the other was inconclusive":     {progress: func(p *verify.Progress) { p.Failed, p.Attempts = 0, 7 }, want: verify.DoRecord},
		"this one is inconclusive":       {pod: ended(corev1.PodFailed, 137, ""), progress: func(p *verify.Progress) { p.Failed, p.Attempts = 7, 7 }, want: verify.DoRecord},
		"it was open before":             {progress: func(p *verify.Progress) { p.Round = 1 }, want: verify.DoRecord},
		"it has the label":               {node: func(n *verify.Node) { n.Labels[verify.Label] = "true" }, want: verify.DoNote},
		"the taint was added to it":      {opened: true, want: verify.DoNote},
		"that was written already":       {opened: true, progress: func(p *verify.Progress) { *p = p.AfterOpen() }, want: verify.DoRecord},
		"an operator added the taint":    {node: func(n *verify.Node) { n.Taints[0].Value = "again" }, want: verify.DoRecord},
		"it is removed already":          {progress: func(p *verify.Progress) { p.Removing = verify.RemoveNodeClaim }, want: verify.DoRecord},
		"other checks failed before":     {progress: func(p *verify.Progress) { p.Hash = "other" }, want: verify.DoRecord},
		"it has another boot":            {progress: func(p *verify.Progress) { p.BootID = "b0" }, want: verify.DoRecord},
		"no Node is verified":            {control: &verify.Control{}, want: verify.DoRecord, held: verify.BrakeNoControl},
		"no control yet":                 {control: &verify.Control{Able: 1}, want: verify.DoControl},
		"no control in time":             {control: &verify.Control{Able: 1}, now: born.Add(time.Hour), want: verify.DoRecord, held: verify.BrakeNoControl},
		"the control passed too early":   {control: new(controlOf(-time.Second, 0, passes)), want: verify.DoControl},
		"the control says nothing":       {control: new(controlOf(0, 137, "")), want: verify.DoRecord, held: verify.BrakeNoControl},
		"the control fails":              {control: new(controlOf(0, 1, refuses)), want: verify.DoRecord, held: verify.BrakeSharedFailure},
		"one of two is asked":            {control: new(asked(2, controlPod(0, 0, passes))), want: verify.DoControl},
		"one of two fails":               {control: new(asked(2, controlPod(0, 0, passes), controlPod(0, 1, refuses))), want: verify.DoRecord, held: verify.BrakeSharedFailure},
		"one of two says nothing":        {control: new(asked(2, controlPod(0, 0, passes), controlPod(0, 137, ""))), want: verify.DoRecord, held: verify.BrakeNoControl},
		"one of two passed too early":    {control: new(asked(2, controlPod(0, 0, passes), controlPod(-time.Second, 0, passes))), want: verify.DoControl},
		"two of many pass":               {control: new(asked(9, controlPod(0, 0, passes), controlPod(0, 0, passes))), want: verify.DoRemove},
		"the machine fails":              {profile: combined, pod: smi, progress: func(p *verify.Progress) { p.FailingSince = born.Add(-time.Hour) }, control: &verify.Control{Passed: born.Add(time.Second)}, want: verify.DoRemove},
		"others began before it failed":  {profile: combined, pod: smi, control: &verify.Control{Passed: born.Add(time.Second)}, want: verify.DoRecord, held: verify.BrakeNoControl},
		"others passed before":           {profile: combined, pod: smi, control: &verify.Control{Passed: born}, want: verify.DoRecord, held: verify.BrakeNoControl},
		"others pass in times to come":   {profile: combined, pod: smi, control: &verify.Control{Passed: early.Add(time.Second)}, want: verify.DoRecord, held: verify.BrakeNoControl},
		"no other passed on its machine": {profile: combined, pod: smi, want: verify.DoRecord, held: verify.BrakeNoControl},
	} {
		t.Run(name, func(t *testing.T) {
			if test.profile == nil {
				test.profile = removing
			}
			now := test.now
			if now.IsZero() {
				now = early
			}
			profiles, node := planProfile(t, test.profile), readyNode()
			node.Annotation = failedOnce(profiles, test.progress)
			node.Verified = shownOf(node)
			if test.node != nil {
				test.node(node)
			}
			if test.pod == nil {
				test.pod = ended(corev1.PodFailed, 1, refuses)
			}
			if test.control == nil {
				test.control = &passed
			}
			prev := verify.ParseProgress(node.Annotation)
			if prev.Hash != profiles.All()[0].Hash || prev.BootID != "b1" { // the attempts begin anew
				prev.Attempts, prev.Failed = 0, 0
			}
			pod := verify.Pod{Name: verify.PodPrefix + verify.AttemptOf(node.UID, verify.Progress{Round: prev.Round, Attempts: prev.Attempts, Hash: profiles.All()[0].Hash, BootID: "b1"}), UID: "p1", NodeUID: node.UID, Created: born.Add(time.Second)}
			test.pod(&pod)
			action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod), Control: *test.control, Opened: test.opened}, profiles, verify.Cluster{}, now)
			require.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			if action.Judged.Verdict == verify.VerdictInconclusive {
				assert.Equal(t, prev.Failed, action.Progress.Failed, "no check has failed")
			}
			if !test.requeue.IsZero() {
				assert.Equal(t, test.requeue, action.Requeue)
			}
			switch {
			case action.Operation == verify.DoRemove:
				assert.Equal(t, verify.Removal{Node: "n1", UID: "u1", Kind: verify.RemoveNode, Profile: "gpu", Time: now}, action.Removal)
				assert.Equal(t, 2, action.Progress.Attempts, "the attempt is recorded, too")
			case action.Operation == verify.DoNote:
				assert.Equal(t, prev.Attempts, action.Progress.Attempts)
				assert.Equal(t, 1, action.Progress.Round)
			case test.held != "":
				require.NotNil(t, action.Progress.RemovalHeld)
				assert.Equal(t, test.held, action.Progress.RemovalHeld.Reason)
			case action.Operation == verify.DoRecord:
				assert.Nil(t, action.Progress.RemovalHeld)
			}
		})
	}
}

// planned returns a removal as Plan plans it, of a Node whose attempt before met this brake; its worker Pod was created at born + 1 s.
func planned(t *testing.T, limits string, prev *verify.Brake) (verify.Action, verify.CompiledLimits) {
	t.Helper()
	profiles, node := planProfile(t, removing), readyNode()
	node.Annotation = failedOnce(profiles, func(p *verify.Progress) { p.RemovalHeld = prev })
	pod := workerPod(node, profiles, ended(corev1.PodFailed, 1, refuses))
	action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod), Control: controlOf(0, 0, passes)}, profiles, verify.Cluster{}, born.Add(20*time.Second))
	require.Equal(t, verify.DoRemove, action.Operation)
	return action, limitsOf(t, limits)
}

func TestABrakeHoldsARemovalAndAFreshFailureIsNeededOnceItHasClosed(t *testing.T) {
	created, now := born.Add(time.Second), born.Add(20*time.Second)
	fn := func(uid string, instant time.Time, done bool) verify.Removal {
		return verify.Removal{Node: uid, UID: uid, Kind: verify.RemoveNode, Profile: "gpu", Time: instant, Done: done}
	}
	ledger := func(removals ...verify.Removal) verify.Ledger { return verify.Ledger{Removals: removals} }
	seeing := func(profile string, reason verify.BrakeReason, instant time.Time) verify.Ledger {
		seen, news := verify.Ledger{}.Seeing(profile, reason, instant)
		require.True(t, news)
		return seen
	}
	sameName := fn("n0", born.Add(-time.Hour), true)
	sameName.Node = "n1"
	for name, test := range map[string]struct {
		limits string
		seen   verify.Removals
		prev   *verify.Brake
		want   verify.Operation
		held   verify.BrakeReason
		end    time.Time
	}{
		"none is open":                                {want: verify.DoRemove},
		"Pods run on the Node":                        {seen: verify.Removals{Blocked: &verify.Brake{Reason: verify.BrakePods}}, want: verify.DoRecord, held: verify.BrakePods},
		"too many fail":                               {limits: "{stopAbove: 0}", want: verify.DoRecord, held: verify.BrakeTooMany},
		"the budget is used up":                       {limits: "{deletionsPerHour: 1}", seen: verify.Removals{Ledger: ledger(fn("a", created.Add(-59*time.Minute), true))}, want: verify.DoRecord, held: verify.BrakeBudget, end: created.Add(time.Minute)},
		"the budget is free":                          {limits: "{deletionsPerHour: 1}", seen: verify.Removals{Ledger: ledger(fn("a", created.Add(-time.Hour), true))}, want: verify.DoRemove},
		"the budget is free since the check failed":   {limits: "{deletionsPerHour: 1}", seen: verify.Removals{Ledger: ledger(fn("a", created.Add(-time.Hour+time.Second), true))}, want: verify.DoRecord, held: verify.BrakeBudget, end: created.Add(time.Second)},
		"the cooldown ends":                           {seen: verify.Removals{Ledger: ledger(fn("a", created.Add(-15*time.Minute), true)), Selected: 100}, want: verify.DoRemove},
		"the cooldown has ended since":                {seen: verify.Removals{Ledger: ledger(fn("a", created.Add(time.Second-15*time.Minute), true)), Selected: 100}, want: verify.DoRecord, held: verify.BrakeCooldown, end: created.Add(time.Second)},
		"another was removed since":                   {seen: verify.Removals{Ledger: ledger(fn("a", now, true)), Selected: 100}, want: verify.DoRecord, held: verify.BrakeCooldown, end: now.Add(15 * time.Minute)},
		"the same name":                               {seen: verify.Removals{Ledger: ledger(sameName)}, want: verify.DoRecord, held: verify.BrakeSameNode, end: born.Add(23 * time.Hour)},
		"an entry of it that was not finished":        {seen: verify.Removals{Ledger: ledger(fn("u1", born.Add(-time.Minute), false))}, want: verify.DoRemove},
		"an entry of it, and the cooldown":            {seen: verify.Removals{Ledger: ledger(fn("u1", born.Add(-time.Hour), false), fn("a", born, true)), Selected: 100}, want: verify.DoRecord, held: verify.BrakeCooldown, end: born.Add(15 * time.Minute)},
		"it was removed by a process that was killed": {seen: verify.Removals{Ledger: ledger(fn("u1", born, true))}, want: verify.DoRecord},
		"its removal is over, and only the entry does not say so": {limits: "{stopAbove: 0}", seen: verify.Removals{
			Removed: true, Ledger: ledger(fn("u1", born, false)), Blocked: &verify.Brake{Reason: verify.BrakeRefused},
		}, want: verify.DoRemove},
		"what it names does not exist, and nobody has begun to remove it": {seen: verify.Removals{Removed: true, Blocked: &verify.Brake{Reason: verify.BrakeRefused}}, want: verify.DoRecord, held: verify.BrakeRefused},
		"a shared failure a moment ago":                                   {seen: verify.Removals{Ledger: seeing("gpu", verify.BrakeSharedFailure, created.Add(time.Second-2*time.Minute))}, want: verify.DoRecord, held: verify.BrakeSharedFailure, end: created.Add(time.Second)},
		"a shared failure of before":                                      {seen: verify.Removals{Ledger: seeing("gpu", verify.BrakeSharedFailure, created.Add(-2*time.Minute))}, want: verify.DoRemove},
		"a shared failure of another profile":                             {seen: verify.Removals{Ledger: seeing("cpu", verify.BrakeSharedFailure, now)}, want: verify.DoRemove},
		"too many failed a moment ago":                                    {seen: verify.Removals{Ledger: seeing("gpu", verify.BrakeTooMany, now)}, want: verify.DoRecord, held: verify.BrakeTooMany, end: now.Add(2 * time.Minute)},
		"a brake of unknown end has closed":                               {prev: &verify.Brake{Reason: verify.BrakePods}, want: verify.DoRecord},
		"a brake closed after the Pod was created":                        {prev: &verify.Brake{Reason: verify.BrakeCooldown, End: created.Add(time.Second)}, want: verify.DoRecord},
		"a brake closed before":                                           {prev: &verify.Brake{Reason: verify.BrakeCooldown, End: created}, want: verify.DoRemove},
	} {
		t.Run(name, func(t *testing.T) {
			if test.limits == "" {
				test.limits = "{}"
			}
			action, limits := planned(t, test.limits, test.prev)
			test.seen.Nodes = map[string]bool{"u1": false}
			for _, uid := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
				test.seen.Nodes[uid] = false
			}
			decided := action.Decide(test.seen, limits, now)
			require.Equal(t, test.want, decided.Operation)
			held := decided.Progress.RemovalHeld
			switch {
			case test.held != "":
				require.NotNil(t, held)
				assert.Equal(t, test.held, held.Reason)
				assert.Equal(t, test.end, held.End)
				assert.Empty(t, decided.Progress.Removing)
				assert.NotEmpty(t, held.String())
			case test.want == verify.DoRemove, name == "it was removed by a process that was killed":
				assert.Equal(t, verify.RemoveNode, decided.Progress.Removing)
			default:
				assert.Nil(t, held)
				assert.Empty(t, decided.Progress.Removing)
			}
		})
	}
}

func TestTheLedgerKeepsWhenBrakesWereSeenAndIsNotWrittenForEachNode(t *testing.T) {
	ledger, news := verify.Ledger{Removals: []verify.Removal{removal("a", 0)}}.Seeing("gpu", verify.BrakeTooMany, ledgerStart)
	require.True(t, news)
	read, err := verify.ParseLedger(ledger.String())
	require.NoError(t, err)
	assert.Equal(t, ledger, read)
	_, news = ledger.Seeing("gpu", verify.BrakeTooMany, ledgerStart.Add(59*time.Second))
	assert.False(t, news)
	later, news := ledger.Seeing("gpu", verify.BrakeTooMany, ledgerStart.Add(time.Minute))
	assert.True(t, news)
	assert.Len(t, later.Brakes, 1)
	later, news = later.Seeing("cpu", verify.BrakeTooMany, ledgerStart.Add(25*time.Hour))
	assert.True(t, news)
	assert.Len(t, later.Brakes, 1, "those of the day before go")
	assert.Empty(t, later.Removals)
	_, news = ledger.Seeing("gpu", verify.BrakeCooldown, ledgerStart)
	assert.False(t, news, "the removals tell it")
	_, err = verify.ParseLedger(`{"removals":[],"brakes":[{"profile":"gpu","reason":"Cooldown","seen":"2026-11-24T12:00:00Z"}]}`)
	assert.ErrorContains(t, err, "brake 1 is none")
}

func TestWhatAnAnnotationSaysOfRemovalsIsBoundedAndKnown(t *testing.T) {
	progress := verify.ParseProgress(`{"attempts":2,"failed":1,"removing":"everything","removalHeld":{"reason":"None"}}`)
	assert.Empty(t, progress.Removing)
	assert.Nil(t, progress.RemovalHeld)
	assert.Equal(t, 1, progress.Failed)
	progress = verify.ParseProgress(`{"removalHeld":{"reason":"Pods","message":"\u001b[31mred"}}`)
	assert.NotContains(t, progress.RemovalHeld.Message, "\x1b")
	assert.Zero(t, verify.ParseProgress(`{"attempts":1,"failed":2}`), "no Node has failed more often than it was tried")
	for _, reason := range verify.BrakeReasons() {
		assert.NotEmpty(t, verify.Brake{Reason: reason}.String(), reason)
	}
}

// Three Nodes fail for good, one after the other, day and night. Now and then verified Nodes fail the same for a while. Attempts that are held by what the
// ledger says must not note that again.
func TestABrakeIsClosedThreeMinutesAfterItsCauseHoweverManyNodesItHolds(t *testing.T) {
	const cause, interval, attempts = 10 * time.Minute, 6 * time.Hour, time.Minute
	unheld, limits := planned(t, "{stopAbove: 50%}", nil)
	for _, stagger := range []time.Duration{time.Second, 20 * time.Second, 37 * time.Second} {
		var ledger verify.Ledger
		prev, held, free := map[string]*verify.Brake{}, 0, 0
		for pos := time.Duration(0); pos < 30*24*time.Hour; pos += attempts {
			for i, name := range []string{"a", "b", "c"} {
				now := born.Add(pos + time.Duration(i)*stagger)
				sinceCause := now.Sub(born)%interval - cause
				action := unheld
				if prev[name] != nil {
					action, _ = planned(t, "{stopAbove: 50%}", prev[name])
				}
				action.Pod.Created, action.Removal.UID, action.Removal.Node, action.Removal.Time = now.Add(-10*time.Second), name, name, now
				if sinceCause < 0 {
					action = action.BlockedBy(&verify.Brake{Reason: verify.BrakeSharedFailure})
				} else {
					action = action.Decide(verify.Removals{Ledger: ledger, Selected: 20, Nodes: map[string]bool{"a": true, "b": true, "c": true, "d": false, "e": false, "f": false}}, limits, now)
				}
				if reason := action.Saw(); reason != "" {
					ledger, _ = ledger.Seeing(action.Profile.Name, reason, now)
				}
				switch prev[name] = action.Progress.RemovalHeld; {
				case action.Operation == verify.DoRemove:
					free++ // it comes again at once in this world, as broken as before
				case prev[name] != nil && sinceCause >= 3*time.Minute:
					require.Failf(t, "a brake is open", "%v after its cause, Nodes %v apart: %v", sinceCause, stagger, prev[name])
				case prev[name] != nil:
					held++
				}
			}
		}
		assert.Positive(t, held)
		assert.Positive(t, free)
	}
}
