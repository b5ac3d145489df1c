package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	eventrecord "k8s.io/client-go/tools/record"

	"nodekeep.dev/nodekeep/verify"
)

const (
	namespace = "checks"
	passes    = `{"results":[{"check":"dns","outcome":"passed","required":true,"millis":1}]}`
	noResults = `{"results":[]}`
	silent    = "silent" // the worker goes on and reports nothing
	refuses   = `{"results":[{"check":"dns","outcome":"failed","required":true,"reason":"Timeout","message":"no answer","millis":1}]}`
)

// A watch of the fake clientset panics at an event that it has no room for. In the goroutine of a controller that is contained, and the event is lost.
func TestMain(m *testing.M) {
	watch.DefaultChanSize = 100_000
	m.Run()
}

// bed is an API server in memory that keeps the preconditions of writes, and kubelets.
type bed struct {
	t      *testing.T
	client *fake.Clientset
	events *eventrecord.FakeRecorder

	passed  atomic.Int64  // nanoseconds by which the clock of the bed is ahead
	watches atomic.Int64  // that were begun
	sweep   time.Duration // how often old reports are deleted; 0: never
	log     io.Writer     // of the processes; nil: nobody reads it

	mu       sync.Mutex
	serial   int
	writes   []string // that were accepted
	pods     []string // that were created
	killAt   int      // the write after which the process is killed; 0: never
	dead     bool     // the process that was killed can write no more
	kill     func()
	profiles verify.Profiles
	report   map[string]string // by Node: what its workers report; "" leaves Pods pending
	fault    string            // what the workers of all Nodes report; "": each what is said of its Node
	strips   bool              // another admission policy drops the annotation of verification in each write
	exitCode int32             // of the containers of checks of kind container

	chain     sync.Mutex // of reactions, which are added while processes run: the clientset itself takes none then
	reactions []k8stesting.SimpleReactor
}

func newBed(t *testing.T) *bed {
	t.Helper()
	// NewClientset keeps field managers, which nothing here reads, and takes ten times as long for each write
	b := &bed{t: t, client: fake.NewSimpleClientset(), events: eventrecord.NewFakeRecorder(1000), report: map[string]string{}, serial: 100, kill: func() {}}
	b.use(nil)
	b.register("old", "")
	b.change("old", func(node *corev1.Node) { // the cluster is not cold, and no profile is tried on it
		node.Spec.Taints, node.Labels = nil, map[string]string{"pool": "none"}
	})
	b.client.PrependReactor("*", "*", b.react)
	b.client.PrependReactor("*", "*", func(action k8stesting.Action) (handled bool, result runtime.Object, err error) {
		b.chain.Lock()
		reactions := slices.Clone(b.reactions)
		b.chain.Unlock()
		for _, reaction := range slices.Backward(reactions) {
			if reaction.Handles(action) {
				if handled, result, err = reaction.React(action); handled {
					return handled, result, err
				}
			}
		}
		return false, nil, nil
	})
	b.client.PrependWatchReactor("*", func(action k8stesting.Action) (bool, watch.Interface, error) {
		begun, err := b.client.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(k8stesting.WatchActionImpl).ListOptions)
		b.watches.Add(1)
		return true, begun, err
	})
	return b
}

// reacts has calls of a kind answered in another way, from now on.
func (b *bed) reacts(verb, resource string, reaction k8stesting.ReactionFunc) {
	b.chain.Lock()
	defer b.chain.Unlock()
	b.reactions = append(b.reactions, k8stesting.SimpleReactor{Verb: verb, Resource: resource, Reaction: reaction})
}

// use changes the policy.
func (b *bed) use(change func(*verify.Profile)) {
	b.t.Helper()
	profile := verify.Profile{
		Name: "all", NodeSelector: "pool!=none", Checks: []verify.Check{{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}},
		Attempts: verify.Attempts{Max: new(2), Backoff: "1s", MaxBackoff: "1s"},
	}
	if change != nil {
		change(&profile)
	}
	profiles, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{profile}}, nil)
	profiles.Start.PerSecond = 50
	require.Empty(b.t, errs)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.profiles = profiles
}

// now returns the time in the bed.
func (b *bed) now() time.Time { return time.Now().Add(time.Duration(b.passed.Load())) }

// pass lets time pass in the bed.
func (b *bed) pass(duration time.Duration) { b.passed.Add(int64(duration)) }

var errDead = errors.New("the process is dead")

// react does what the fake clientset leaves out: versions, uids, preconditions.
func (b *bed) react(action k8stesting.Action) (handled bool, result runtime.Object, err error) {
	verb, resource := action.GetVerb(), action.GetResource().Resource
	if resource == "configmaps" && verb == "update" {
		return b.updateMap(action.(k8stesting.UpdateAction))
	}
	if verb != "create" && verb != "patch" && verb != "delete" && verb != "update" {
		return false, nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return true, nil, errDead
	}
	b.serial++
	switch {
	case verb == "patch" && resource == "nodes":
		result, err = b.patchNode(action.(k8stesting.PatchAction))
		handled = true
	case verb == "create" && resource == "pods":
		pod := action.(k8stesting.CreateAction).GetObject().(*corev1.Pod)
		pod.UID, pod.ResourceVersion, pod.CreationTimestamp = types.UID(fmt.Sprint("pod-", b.serial)), strconv.Itoa(b.serial), metav1.NewTime(b.now())
		err = b.client.Tracker().Create(action.GetResource(), pod, namespace)
		handled, result = true, pod
		if err == nil {
			b.pods = append(b.pods, pod.Name)
		}
	case verb == "delete" && resource == "pods":
		deletion := action.(k8stesting.DeleteActionImpl)
		object, missing := b.client.Tracker().Get(action.GetResource(), namespace, deletion.Name)
		if missing == nil && object.(*corev1.Pod).UID != *deletion.DeleteOptions.Preconditions.UID {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), deletion.Name, errors.New("another uid"))
		}
	}
	if err != nil {
		return true, nil, err
	}
	name := verb + " " + resource
	if sub := action.GetSubresource(); sub != "" {
		name += "/" + sub
	}
	if resource != "leases" && resource != "events" {
		b.wrote(name)
	}
	return handled, result, nil
}

// updateMap updates a ConfigMap of exactly the state that was read, if the writer names one.
func (b *bed) updateMap(update k8stesting.UpdateAction) (handled bool, result runtime.Object, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := update.GetObject().(*corev1.ConfigMap).DeepCopy()
	object, err := b.client.Tracker().Get(update.GetResource(), namespace, wanted.Name)
	switch {
	case b.dead:
		return true, nil, errDead
	case err != nil:
		return true, nil, err
	case wanted.ResourceVersion != "" && wanted.ResourceVersion != object.(*corev1.ConfigMap).ResourceVersion:
		return true, nil, apierrors.NewConflict(update.GetResource().GroupResource(), wanted.Name, errors.New("older"))
	}
	b.serial++
	wanted.ResourceVersion = strconv.Itoa(b.serial)
	b.wrote("update configmaps")
	return true, wanted, b.client.Tracker().Update(update.GetResource(), wanted, namespace)
}

// wrote counts a write that was accepted, and kills the process after the one that was asked for.
func (b *bed) wrote(name string) {
	b.writes = append(b.writes, name)
	if len(b.writes) == b.killAt {
		b.dead = true
		b.kill()
	}
}

func (b *bed) patchNode(patch k8stesting.PatchAction) (runtime.Object, error) {
	object, err := b.client.Tracker().Get(patch.GetResource(), "", patch.GetName())
	if err != nil {
		return nil, err
	}
	prev := object.(*corev1.Node)
	var asked struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if err := json.Unmarshal(patch.GetPatch(), &asked); err != nil {
		return nil, err
	}
	if asked.Metadata.UID != string(prev.UID) || asked.Metadata.ResourceVersion != prev.ResourceVersion {
		return nil, apierrors.NewConflict(patch.GetResource().GroupResource(), patch.GetName(), errors.New("older"))
	}
	old, err := json.Marshal(prev)
	if err != nil {
		return nil, err
	}
	changed, err := jsonpatch.MergePatch(old, patch.GetPatch())
	if patch.GetPatchType() == types.StrategicMergePatchType {
		changed, err = strategicpatch.StrategicMergePatch(old, patch.GetPatch(), corev1.Node{})
	}
	if err != nil {
		return nil, err
	}
	updated := &corev1.Node{}
	if err := json.Unmarshal(changed, updated); err != nil {
		return nil, err
	}
	if b.strips {
		delete(updated.Annotations, verify.Annotation)
	}
	updated.ResourceVersion = strconv.Itoa(b.serial)
	return updated, b.client.Tracker().Update(patch.GetResource(), updated, "")
}

// change changes a Node as another client does.
func (b *bed) change(name string, change func(*corev1.Node)) {
	b.t.Helper()
	require.NoError(b.t, b.tryChange(name, change))
}

// tryChange is change for a Node that may be removed at any time.
func (b *bed) tryChange(name string, change func(*corev1.Node)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	object, err := b.client.Tracker().Get(nodes, "", name)
	if err != nil {
		return err
	}
	node := object.(*corev1.Node).DeepCopy()
	change(node)
	b.serial++
	node.ResourceVersion = strconv.Itoa(b.serial)
	return b.client.Tracker().Update(nodes, node, "")
}

// register creates a Ready Node with the taint.
func (b *bed) register(name, report string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serial++
	b.report[name] = report
	require.NoError(b.t, b.client.Tracker().Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("node-", b.serial)), ResourceVersion: strconv.Itoa(b.serial), CreationTimestamp: metav1.NewTime(b.now())},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: "b1"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(b.now())}},
		},
	}))
}

func (b *bed) node(name string) *corev1.Node {
	b.t.Helper()
	object, err := b.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	require.NoError(b.t, err)
	return object.(*corev1.Node)
}

func (b *bed) podList() []corev1.Pod {
	b.t.Helper()
	list, err := b.client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
	require.NoError(b.t, err)
	return list.Items
}

// kubelets let each worker Pod end with what its Node's workers report.
func (b *bed) kubelets(ctx context.Context) {
	for ctx.Err() == nil {
		for _, pod := range b.podList() {
			if pod.Status.Phase == "" {
				b.end(&pod)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// end lets one worker Pod end, unless nothing is said of its Node.
func (b *bed) end(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	report := cmp.Or(b.fault, b.report[pod.Spec.NodeName])
	if report == "" || report == silent {
		return
	}
	if task, err := verify.ParseTask(pod.Spec.Containers[0].Env[0].Value); err == nil && len(task.Checks) == 0 {
		report = noResults
	}
	worker := &corev1.ContainerStateTerminated{Message: report, StartedAt: metav1.NewTime(b.now()), Reason: "Completed"}
	pod.Status.Phase = corev1.PodSucceeded
	if report != passes && report != noResults {
		pod.Status.Phase, worker.ExitCode, worker.Reason = corev1.PodFailed, 1, "Error"
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: verify.Worker, State: corev1.ContainerState{Terminated: worker}}}
	for _, container := range pod.Spec.Containers[1:] { // of checks of kind container
		exited := &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(b.now()), ExitCode: b.exitCode}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: container.Name, State: corev1.ContainerState{Terminated: exited}})
	}
	b.serial++
	pod.ResourceVersion = strconv.Itoa(b.serial)
	_ = b.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, namespace) // it may have been deleted meanwhile
}

// process runs a controller that leads, until stop is called or the bed kills it. It does not act before it watches: what is deleted between a list and
// its watch, the fake clientset reports to nobody.
func (b *bed) process() (c *Controller, stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.mu.Lock()
	b.kill = cancel
	b.mu.Unlock()
	var done sync.WaitGroup
	c, err := New(Options{
		Client: b.client, Objects: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Retention: func() time.Duration { return time.Hour }, Namespace: namespace, Image: "nodekeep:test",
		Profiles: func() verify.Profiles {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.profiles
		},
		Cluster: verify.Cluster{Gate: "nodekeep.dev/restoring", DNS: "kube-system/kube-dns"},
		Events:  b.events, Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.NewTextHandler(cmp.Or(b.log, io.Discard), nil)), Workers: 4, Sweep: b.sweep, Now: b.now,
	})
	require.NoError(b.t, err)
	prev := b.watches.Load()
	done.Go(func() { _ = c.Run(ctx) })
	b.waitFor("Nodes and Pods must be watched", func() bool { return b.watches.Load() == prev+2 })
	done.Go(func() { b.kubelets(ctx) })
	c.Lead()
	return c, func() { cancel(); done.Wait() }
}

// isOpen reports whether a Node lost the taint of verification, and nothing else, and says so.
func isOpen(node *corev1.Node) bool {
	return len(node.Spec.Taints) == 1 && node.Spec.Taints[0].Key == "other" && node.Labels[verify.Label] == "true"
}

func conditionOf(node *corev1.Node) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == verify.Condition {
			return condition
		}
	}
	return corev1.NodeCondition{}
}
