package removal

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
	"nodekeep.dev/nodekeep/verify"
)

// last are those around the removal itself.
var last = proxy.AnyOf(proxy.About(verify.LedgerMap, proxy.Decides), func(r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/nodeclaims/")
})

// killedAt has one Node pass, and two fail that may be removed, of which the budget lets one go, and kills the controller at a write. held says that it
// wrote so often.
func killedAt(t *testing.T, p *proxy.Proxy, kind verify.RemovalKind, writes proxy.Match, moment proxy.Moment, number int64) (held bool) {
	t.Helper()
	var names []string
	for i := range 2 {
		name := strings.ToLower(fmt.Sprintf("broken-killed-%s-%d-%d-%d", kind, moment, number, i))
		names = append(names, name)
		current := claim(t, name, name, "box://"+name)
		box := machine(t, name, name, "box://"+name)
		toCheck(t, name, kind, false, func(node *corev1.Node) {
			ofClaim(current)(node)
			ofMachine("default", box.GetName())(node)
		})
	}
	passes := strings.ToLower(fmt.Sprintf("passes-killed-%s-%d-%d", kind, moment, number))
	toCheck(t, passes, kind, false, nil)
	left := func() (left []string) {
		for _, name := range names {
			_, claimErr := admin(t).Resource(nodeClaims).Get(t.Context(), name, metav1.GetOptions{})
			_, nodeErr := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			if !gone(claimErr) && !gone(nodeErr) && !marked(t, name) {
				left = append(left, name)
			}
		}
		return left
	}
	ended := func() bool {
		left, entries := left(), ledger(t).Removals
		if len(left) != 1 || len(entries) != 1 || kind != verify.RemoveNode && !entries[0].Done { // nobody is left to finish the entry of a deleted Node
			return false
		}
		brake, open := progressOf(t, left[0]).RemovalHeld, nodekeep.Node(t, passes)
		return open.Labels[verify.Label] == "true" && len(open.Spec.Taints) == 0 && brake != nil && (brake.Reason == verify.BrakeCooldown || brake.Reason == verify.BrakeBudget)
	}
	reached := make(chan string, 1)
	p.Break(proxy.Hold(writes, number, moment, func(r *http.Request) { reached <- r.Method + " " + r.URL.Path }))
	defer p.Break(nil)
	begin(t, "--leader-elect=false")
	stamp := ""
	require.Eventually(t, func() bool {
		select {
		case stamp = <-reached:
			return true
		default:
			return ended()
		}
	}, settles, 50*time.Millisecond)
	if stamp == "" {
		return false
	}
	require.NoError(t, nodekeep.KillVerify())
	p.Break(nil)
	require.NoError(t, nodekeep.StartVerify(context.Background(), "--leader-elect=false"))
	harness.Eventually(t, ended, settles, 50*time.Millisecond, "killed at %s: left are %v, the ledger is %v", stamp, left(), ledger(t))
	return true
}

func TestAControllerKilledAtAnyWriteOfARemovalRemovesNoMoreThanTheBudgetAndNoOther(t *testing.T) {
	p, err := proxy.Start(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	nodekeep.Route = func(_ string, direct *rest.Config) *rest.Config { return p.Config(direct) }
	t.Cleanup(func() { nodekeep.Route = nil })
	kinds, writes, minimum := verify.RemovalKinds(), proxy.Match(proxy.Decides), 20
	if os.Getenv("NODEKEEP_LONG_FAULTS") == "" {
		t.Log("only the writes around the removal of a NodeClaim, since all take four minutes: NODEKEEP_LONG_FAULTS=1, and so does make test-faults")
		kinds, writes, minimum = []verify.RemovalKind{verify.RemoveNodeClaim}, last, 6
	}
	const good = "good-killed"
	current, box := claim(t, good, good, "box://"+good), machine(t, good, good, "box://"+good)
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			name := strings.ToLower(good + "-" + string(kind))
			toCheck(t, name, kind, true, func(node *corev1.Node) {
				ofClaim(current)(node)
				ofMachine("default", box.GetName())(node)
			})
			kills := 0
			for _, moment := range []proxy.Moment{proxy.BeforeRequest, proxy.AfterResponse} {
				for number, held := int64(1), true; held; number++ {
					require.Less(t, number, int64(60), "the controller goes on writing for ever")
					t.Run(fmt.Sprintf("moment %d of write %d", moment, number), func(t *testing.T) { held = killedAt(t, p, kind, writes, moment, number) })
					if held {
						kills++
					}
				}
			}
			nodekeep.Node(t, name)
			require.GreaterOrEqual(t, kills, minimum, "the ledger, the removal, and the ledger again, at the least")
			t.Logf("killed at %d moments", kills)
		})
	}
	_, err = admin(t).Resource(nodeClaims).Get(t.Context(), good, metav1.GetOptions{})
	require.NoError(t, err)
	assert.False(t, marked(t, good))
}
