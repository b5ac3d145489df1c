package nodepolicy

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/manifests"
)

// Policies that close Nodes.
const (
	verifies     = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"verify":{"profiles":[{"name":"all","checks":[{"name":"api","api":{}}]}]}}}`
	verifiesMore = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"verify":{"profiles":[{"name":"every","checks":[{"name":"api","api":{}}]}]}}}`
)

// shipped returns the objects that the command creates.
func shipped(t *testing.T) (role rbacv1.Role, binding rbacv1.RoleBinding) {
	t.Helper()
	documents := strings.Split(manifests.Emergency, "\n---\n")
	require.Len(t, documents, 2)
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), &role))
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[1]), &binding))
	return role, binding
}

func TestABindingToAnotherRoleIsNoEmergency(t *testing.T) {
	for title, c := range map[string]struct {
		change func(*rbacv1.RoleBinding)
		want   bool
	}{
		"as the command creates it":           {func(*rbacv1.RoleBinding) {}, true},
		"it gives the right to others, too":   {func(b *rbacv1.RoleBinding) { b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", Name: "a"}) }, true},
		"it has another name":                 {func(b *rbacv1.RoleBinding) { b.Name = "nodekeep-gate" }, false},
		"it names another Role":               {func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "nodekeep-gate" }, false},
		"it names a ClusterRole of this name": {func(b *rbacv1.RoleBinding) { b.RoleRef.Kind = "ClusterRole" }, false},
		"it gives the right to nobody":        {func(b *rbacv1.RoleBinding) { b.Subjects = nil }, false},
		"it gives the right to a user":        {func(b *rbacv1.RoleBinding) { b.Subjects[0].Kind = "User" }, false},
		"it gives the right to verify":        {func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "nodekeep-verify" }, false},
		"it is for a capture somewhere else":  {func(b *rbacv1.RoleBinding) { b.Subjects[0].Namespace = "default" }, false},
		"it waits for a finalizer":            {func(b *rbacv1.RoleBinding) { b.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		t.Run(title, func(t *testing.T) {
			_, binding := shipped(t)
			c.change(&binding)
			assert.Equal(t, c.want, Binds(&binding))
		})
	}
	assert.False(t, Binds(nil))
}

func TestARoleWithoutTheRightIsNoEmergency(t *testing.T) {
	for title, c := range map[string]struct {
		change func(*rbacv1.Role)
		want   bool
	}{
		"as the command creates it":          {func(*rbacv1.Role) {}, true},
		"it has other rules, too":            {func(r *rbacv1.Role) { r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}}) }, true},
		"it has another name":                {func(r *rbacv1.Role) { r.Name = "nodekeep-gate" }, false},
		"it has no rules":                    {func(r *rbacv1.Role) { r.Rules = nil }, false},
		"another verb":                       {func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"close"} }, false},
		"another resource":                   {func(r *rbacv1.Role) { r.Rules[0].Resources = []string{"gates"} }, false},
		"another group":                      {func(r *rbacv1.Role) { r.Rules[0].APIGroups = []string{""} }, false},
		"of one object alone":                {func(r *rbacv1.Role) { r.Rules[0].ResourceNames = []string{"a"} }, false},
		"every resource of nodekeep's group": {func(r *rbacv1.Role) { r.Rules[0].Resources = []string{"*"} }, true},
		"it may continue, too":               {func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"stop", "continue"} }, false},
		"it may do everything":               {func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"*"} }, false},
	} {
		t.Run(title, func(t *testing.T) {
			role, _ := shipped(t)
			c.change(&role)
			assert.Equal(t, c.want, Grants(&role))
		})
	}
	assert.False(t, Grants(nil))
}

func TestWhatAnErrorSaysOfAnEmergency(t *testing.T) {
	proxys := apierrors.NewGenericServerResponse(404, "get", rbacv1.Resource("roles"), manifests.EmergencyName, "no backend", 0, true)
	for title, c := range map[string]struct {
		err  error
		want bool
	}{
		"it does not exist":                       {apierrors.NewNotFound(rbacv1.Resource("roles"), manifests.EmergencyName), false},
		"a proxy finds no API server":             {proxys, true},
		"it may not be read":                      {forbidden(), true},
		"the API server cannot read it":           {broken(), true},
		"the API server does not answer at all":   {errors.New("connection refused"), true},
		"the API server sends the process away":   {apierrors.NewTooManyRequests("later", 1), true},
		"the API server does not know the caller": {apierrors.NewUnauthorized("expired"), true},
	} {
		t.Run(title, func(t *testing.T) {
			role, binding := objectsOfEmergency(t)
			b := newBed([]runtime.Object{role, binding})
			b.Suspends = true
			require.NoError(t, b.readEmergency(t.Context()))
			require.True(t, b.Emergency())
			b.objects.PrependReactor("get", "roles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			_ = b.readEmergency(t.Context())
			assert.Equal(t, c.want, b.Emergency(), "of an object that was there")

			b = newBed(nil)
			b.Suspends = true
			for _, declaration := range b.declaring() {
				declaration.missed(c.err)
			}
			assert.False(t, b.Emergency(), "no error declares an emergency")
		})
	}
}

func TestAListWithoutAnAnswerEndsNoEmergency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		role, binding := objectsOfEmergency(t)
		b := newBed([]runtime.Object{objectOf(verifies, "a", 1), role, binding})
		b.Suspends = true
		b.objects.PrependReactor("list", "roles", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(rbacv1.Resource("roles"), "")
		})
		b.runs(t)
		assert.Contains(t, strings.Join(b.logged(), "\n"), "it cannot be read whether an emergency is declared")
		assert.True(t, b.Emergency())
	})
}

// The API server's memory may be of before what was read at the start.
func TestWhatIsFollowedIsNeverListedFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed([]runtime.Object{objectOf(verifies, "a", 1)})
		b.Suspends = true
		b.runs(t)
		synctest.Wait()
		listed := map[string]bool{}
		for _, action := range b.objects.Actions() {
			if list, ok := action.(clienttesting.ListActionImpl); ok {
				listed[action.GetResource().Resource] = true
				assert.Empty(t, list.ListOptions.ResourceVersion)
			}
		}
		assert.Equal(t, map[string]bool{"nodepolicies": true, "roles": true, "rolebindings": true}, listed)
	})
}

// objectsOfEmergency returns both objects as the API server has them.
func objectsOfEmergency(t *testing.T) (role, binding *unstructured.Unstructured) {
	t.Helper()
	current := func(typed any) *unstructured.Unstructured {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		require.NoError(t, err)
		return &unstructured.Unstructured{Object: content}
	}
	r, b := shipped(t)
	return current(&r), current(&b)
}

func TestTheProcessesFollowAnEmergency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed([]runtime.Object{objectOf(verifies, "a", 1)})
		b.Suspends = true
		b.runs(t)
		role, binding := objectsOfEmergency(t)
		roles := b.objects.Resource(rbacv1.SchemeGroupVersion.WithResource("roles")).Namespace(namespace)
		bindings := b.objects.Resource(rbacv1.SchemeGroupVersion.WithResource("rolebindings")).Namespace(namespace)
		current := func(want bool, changes int, reason string) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, b.Emergency(), reason)
			assert.Equal(t, want, b.Policy().InEmergency(), reason)
			assert.Equal(t, want, b.Policy().Verify().Suspended, reason)
			assert.EqualValues(t, changes, b.changes.Load(), reason)
			taints := 1
			if want {
				taints = 0
			}
			assert.Len(t, b.Policy().RegistrationTaints(nil), taints, reason)
		}
		noError := func(_ *unstructured.Unstructured, err error) {
			t.Helper()
			require.NoError(t, err)
		}
		current(false, 1, "none is declared")
		noError(bindings.Create(t.Context(), binding, metav1.CreateOptions{}))
		current(false, 1, "without the Role, the API server goes on to gate")
		noError(roles.Create(t.Context(), role, metav1.CreateOptions{}))
		current(true, 2, "both are there")
		assert.Contains(t, strings.Join(b.logged(), "\n"), "an emergency is declared")
		b.update(t, objectOf(verifiesMore, "a", 2))
		current(true, 3, "another policy does not end it")
		require.NoError(t, roles.Delete(t.Context(), manifests.EmergencyName, metav1.DeleteOptions{}))
		current(false, 4, "a client deleted only the Role: the API server gates again")
		noError(roles.Create(t.Context(), role, metav1.CreateOptions{}))
		current(true, 5, "and it is there again")
		require.NoError(t, bindings.Delete(t.Context(), manifests.EmergencyName, metav1.DeleteOptions{}))
		current(false, 6, "it is ended")
		assert.Contains(t, strings.Join(b.logged(), "\n"), "the emergency is ended")
	})
}

func TestAProcessThatStartsInAnEmergencyBeginsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		role, binding := objectsOfEmergency(t)
		b := newBed([]runtime.Object{objectOf(verifies, "a", 1), role, binding})
		b.Suspends = true
		suspended := false
		go b.Run(t.Context(), func() { suspended = b.Policy().InEmergency() }, func(error) {})
		synctest.Wait()
		assert.True(t, suspended, "from its first decision on")
	})
}

func TestOnlyProcessesThatCloseNodesAskForEmergencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		role, binding := objectsOfEmergency(t)
		b := newBed([]runtime.Object{objectOf(verifies, "a", 1), role, binding})
		b.runs(t)
		assert.False(t, b.Policy().InEmergency())
		for _, action := range b.objects.Actions() {
			assert.Equal(t, "nodepolicies", action.GetResource().Resource)
		}
	})
}

// What may not be read any more is as it was; a process that never could read it goes by none.
func TestWhileAnEmergencyCannotBeReadWhatWasKnownLastCounts(t *testing.T) {
	for title, known := range map[string]bool{"it was known": true, "it never was": false} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				role, binding := objectsOfEmergency(t)
				b := newBed([]runtime.Object{objectOf(verifies, "a", 1), role, binding})
				b.Suspends = true
				var denied atomic.Bool
				denied.Store(!known)
				deny := func(clienttesting.Action) (bool, runtime.Object, error) { return denied.Load(), nil, forbidden() }
				b.objects.PrependReactor("*", "roles", deny)
				b.objects.PrependReactor("*", "rolebindings", deny)
				b.runs(t)
				assert.Equal(t, known, b.Emergency())
				denied.Store(true)
				for _, declaration := range b.declaring() { // as a reflector that lists again
					declaration.missed(forbidden())
				}
				assert.Equal(t, known, b.Emergency())
				text := strings.Join(b.logged(), "\n")
				assert.Contains(t, text, "it cannot be read whether an emergency is declared")
				time.Sleep(10 * missingEvery)
				assert.NotContains(t, strings.Join(b.logged(), "\n"), "it cannot be read", "once")
			})
		})
	}
}
