package cli

import (
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

func TestWatchPrintsALineWhenALineHasChanged(t *testing.T) {
	const test = "watch"
	register(t, "watch-1")
	edit(t, "watch-1", map[string]string{testDomain: test})
	command := exec.Command(nodekeep.Binary(), "list", "--watch", "-l", testDomain+"="+test)
	command.Env = nodekeep.Environment("")
	steps := []struct {
		run   func()
		shows string // how a line begins
	}{
		{func() {}, "watch-1 Present"},
		{func() { edit(t, "watch-1", map[string]string{"more": "yes"}) }, "2 0 no"},
		{func() { remove(t, "watch-1") }, "watch-1 Gone"},
		{func() { nodekeep.MustKubectl(t, "-n", "nodekeep-system", "delete", "configmap", "node.watch-1") }, ""},
		{func() { register(t, "watch-2"); edit(t, "watch-2", map[string]string{testDomain: test}) }, "watch-2 Present"},
	}
	done := -1
	a := interrupted(t, command, func(out string) bool {
		lines := strings.Split(out, "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		for done < 0 || done < len(steps) && strings.Contains(strings.Join(lines, "\n"), steps[done].shows) {
			if done++; done < len(steps) {
				steps[done].run()
			}
		}
		return done == len(steps)
	})
	assert.Equal(t, 130, a.Code)
	assert.Contains(t, a.ErrOut, "the watch has ended")
	assert.Equal(t, 1, strings.Count(a.Out, "NAME"), "one header")
	var last string
	for line := range strings.SplitSeq(strings.TrimSpace(a.Out), "\n") {
		line = strings.Join(strings.Fields(ages.ReplaceAllString(line, "")), " ")
		assert.NotEqual(t, last, line, "a line that has not changed is not printed again:\n%s", a.Out)
		last = line
	}
}

func TestWatchPrintsALineThatBeginsToBeSelectedAfterItsRecordHasChanged(t *testing.T) {
	const name, test = "watch-ahead", "watch-ahead"
	register(t, name)
	edit(t, name, map[string]string{"more": "yes"})
	recorded := make(chan struct{})
	first := sync.OnceFunc(func() {
		time.AfterFunc(time.Second, func() { close(recorded) }) // the client has read the record by then
	})
	p, kubeconfig := proxied(t)
	var records, nodes atomic.Bool // the client watches them: what it lists before comes by no watch
	behind := proxy.All(
		proxy.Says(proxy.Watches("configmaps"), store.Name(name), func(*http.Request) { first() }),
		proxy.Says(proxy.Watches("nodes"), testDomain, func(r *http.Request) {
			select {
			case <-recorded:
			case <-r.Context().Done():
			}
		}),
	)
	p.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		records.Store(records.Load() || proxy.Watches("configmaps")(r))
		nodes.Store(nodes.Load() || proxy.Watches("nodes")(r))
		behind(w, r, apiServer)
	})
	command := exec.Command(nodekeep.Binary(), "list", "--watch", "-l", testDomain+"="+test)
	command.Env = nodekeep.Environment(kubeconfig)
	edited := false
	a := interrupted(t, command, func(out string) bool {
		if !edited && records.Load() && nodes.Load() {
			edit(t, name, map[string]string{testDomain: test})
			edited = true
		}
		return strings.Contains(out, name)
	})
	assert.Equal(t, 130, a.Code)
}
