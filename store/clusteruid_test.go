package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/store"
)

// kubeSystem returns an API server of a cluster with that UID. It refuses so many reads first, each with one of the errors in turn.
func kubeSystem(uid types.UID, refuses int, errs ...error) (*fake.Clientset, *int) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid}})
	reads := 0
	client.PrependReactor("get", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if name := action.(clienttesting.GetAction).GetName(); name != "kube-system" {
			return true, nil, fmt.Errorf("nobody may read namespace %q", name)
		}
		if reads++; reads <= refuses {
			return true, nil, errs[reads%len(errs)]
		}
		return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid}}, nil
	})
	return client, &reads
}

func TestAClusterIsKnownOnceItsNamespaceCouldBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, reads := kubeSystem("c1", 12, errors.New("not now"))
		var log bytes.Buffer
		cluster := store.NewCluster(client, slog.New(slog.NewTextHandler(&log, nil)))
		assert.Empty(t, cluster.UID(), "nothing is known before it was read")
		done := make(chan struct{})
		go func() {
			defer close(done)
			cluster.Run(t.Context())
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(t, cluster.UID())
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), "the same error is logged once:\n%s", &log)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, "c1", cluster.UID())
		<-done
		assert.Equal(t, 13, *reads, "and then never again")
	})
}

func TestWhatKeepsAClusterFromBeingKnownIsLoggedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := kubeSystem("c1", 1<<30, errors.New("refused"), errors.New("unreachable"))
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 22*time.Second)
		defer cancel()
		store.NewCluster(client, slog.New(slog.NewTextHandler(&log, nil))).Run(ctx) // returns when the test asks for it
		assert.Equal(t, 5, strings.Count(log.String(), "\n"))
	})
}
