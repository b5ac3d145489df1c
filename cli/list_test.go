package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/cli/cluster"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
)

func TestEachLineOfALongListIsAligned(t *testing.T) {
	var out bytes.Buffer
	l := &lines{output: &output{format: formatTable}, session: &session{Cluster: &cluster.Cluster{Now: time.Now}, IOStreams: genericiooptions.IOStreams{Out: &out}}}
	const all = 1200
	for i := range all {
		name := fmt.Sprintf("n-%d", i)
		if i == all-1 {
			name = "a-node-with-a-name-that-is-longer-than-all-others"
		}
		l.add(view.Summary{Name: name, Status: nodestate.Present, Current: true})
	}
	require.NoError(t, l.end())
	printed := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, printed, all+1)
	column := strings.Index(printed[0], "STATUS")
	for _, line := range printed[1:] {
		require.Equal(t, column, strings.Index(line, "Present"), line)
	}
}

func TestAWatchSaysThatTheConnectionIsLostAndThatItIsThereAgain(t *testing.T) {
	broken := make(chan bool, 1)
	broken <- false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		isBroken := <-broken
		broken <- isBroken
		if isBroken {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		w.WriteHeader(http.StatusForbidden) // an answer all the same
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	news := (&session{Cluster: &cluster.Cluster{Client: client, Config: config}}).reportConnection(t.Context())
	hear := func() string {
		select {
		case text := <-news:
			return text
		case <-time.After(time.Minute):
			require.Fail(t, "nothing is said")
			return ""
		}
	}
	<-broken
	broken <- true
	assert.Contains(t, hear(), "connection lost: the API server at "+server.URL)
	<-broken
	broken <- false
	assert.Contains(t, hear(), "connected again")
}
