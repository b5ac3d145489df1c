package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/webhook"
)

// gatePolicy and gateCalls are those of an installation, of which each knows emergencies or does not.
func gatePolicy(knows bool) *admissionregistrationv1.MutatingAdmissionPolicy {
	return &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: gateObjectName}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConditions: conditions(knows)}}
}

func gateCalls(knows bool) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookConfigurationName}, Webhooks: []admissionregistrationv1.MutatingWebhook{
		{Name: "a", MatchConditions: conditions(true)}, {Name: "b", MatchConditions: conditions(knows)},
	}}
}

func conditions(knows bool) []admissionregistrationv1.MatchCondition {
	all := []admissionregistrationv1.MatchCondition{{Name: "switched-on", Expression: "true"}}
	if knows {
		all = append(all, admissionregistrationv1.MatchCondition{Name: noEmergency, Expression: "true"})
	}
	return all
}

// gatesNodes returns all by which an installation acts on new Nodes.
func gatesNodes() []runtime.Object {
	gate, local := metav1.ObjectMeta{Name: gateObjectName}, metav1.ObjectMeta{Name: gateObjectName, Namespace: DefaultNamespace}
	return []runtime.Object{
		gatePolicy(true), gateCalls(true), &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: gate}, &rbacv1.Role{ObjectMeta: local}, &rbacv1.RoleBinding{ObjectMeta: local},
	}
}

// emergencyOn returns a run of the command on a cluster with these objects.
func emergencyOn(t *testing.T, objects ...runtime.Object) (e *emergency, client *fake.Clientset, out *bytes.Buffer) {
	t.Helper()
	c, _, stderr := clusterWith(t, "", nil)
	client = fake.NewClientset(objects...)
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SubjectAccessReview{}, nil
	})
	c.Client, c.Out, c.gate, c.Now = client, stderr, policy.DefaultGate, time.Now
	return &emergency{nodeOpener: nodeOpener{session: c}, endCommand: "nodekeep emergency --end"}, client, stderr
}

func TestAnEmergencyIsIgnoredByAGateThatDoesNotKnowIt(t *testing.T) {
	for name, test := range map[string]struct {
		objects []runtime.Object
		allowed bool
		denied  string // a resource that the caller may not read
		reason  string
		err     string
	}{
		"it knows emergencies":                        {objects: []runtime.Object{gatePolicy(true), gateCalls(true)}},
		"nothing gates":                               {},
		"an older policy":                             {objects: []runtime.Object{gatePolicy(false), gateCalls(true)}, reason: "MutatingAdmissionPolicy nodekeep-gate is of an older nodekeep"},
		"an older webhook":                            {objects: []runtime.Object{gatePolicy(true), gateCalls(false)}, reason: "MutatingWebhookConfiguration nodekeep is of an older nodekeep"},
		"capture may do everything":                   {objects: []runtime.Object{gatePolicy(true)}, allowed: true, reason: "ServiceAccount nodekeep-capture may do everything"},
		"the policy may not be read":                  {objects: []runtime.Object{gatePolicy(false), gateCalls(true)}, denied: "mutatingadmissionpolicies", err: "mutatingadmissionpolicies"},
		"one may not be read, and the other is older": {objects: []runtime.Object{gateCalls(false)}, denied: "mutatingadmissionpolicies", reason: "MutatingWebhookConfiguration nodekeep"},
	} {
		t.Run(name, func(t *testing.T) {
			e, client, _ := emergencyOn(t, test.objects...)
			client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: test.allowed}}, nil
			})
			if test.denied != "" {
				client.PrependReactor("get", test.denied, func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(admissionregistrationv1.Resource(test.denied), gateObjectName, errDenied{})
				})
			}
			reason, err := e.unseenReason(t.Context())
			assert.True(t, strings.HasPrefix(reason, test.reason), reason)
			assert.Equal(t, test.reason == "", reason == "")
			if test.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.err)
			}
		})
	}
}

// A gate that knows emergencies by its name, and gates all the same.
func TestIfNewNodesAreStillGatedWhatGatesIsDeleted(t *testing.T) {
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: gateObjectName}}
	e, client, out := emergencyOn(t, gatePolicy(true), gateCalls(true), binding)
	bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	gates := func(ctx context.Context) bool {
		_, err := bindings.Get(ctx, gateObjectName, metav1.GetOptions{})
		return err == nil
	}
	registersAt(t, e, gates)
	_, begun, err := e.ensureUngated(t.Context())
	require.NoError(t, err)
	assert.False(t, begun.Lasts)
	assert.Contains(t, begun.MissingObjects.Gate, "MutatingAdmissionPolicyBinding nodekeep-gate")
	assert.NotEmpty(t, begun.MissingObjects.Webhook)
	assert.Contains(t, out.String(), "it was not seen within 1.001s that new Nodes are no longer gated. So the objects that gate are deleted.")
	assert.Contains(t, out.String(), "MutatingWebhookConfiguration nodekeep: deleted\nnew Nodes are no longer gated\n")
	assert.False(t, gates(t.Context()))
}

func TestItIsNotSaidThatAnEmergencyLastsWhereItIsNotKnownWhetherTheAPIServerSeesIt(t *testing.T) {
	e, client, out := emergencyOn(t, gatesNodes()...)
	client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(authorizationv1.Resource("subjectaccessreviews"), "", errDenied{})
	})
	registersAt(t, e, func(context.Context) bool { return false })
	require.NoError(t, e.declare(t.Context()))
	assert.Contains(t, out.String(), "\nthe emergency is declared, and the API server gates no new Node now\nto end it: ")
}

func TestALongSettlingTimeIsNoReasonToDeleteWhatGates(t *testing.T) {
	e, _, out := emergencyOn(t, gatesNodes()...)
	registersAt(t, e, func(context.Context) bool { return false })
	e.settleTime, e.awaitTimeout = 2*dryRunInterval, dryRunInterval
	_, begun, err := e.ensureUngated(t.Context())
	require.NoError(t, err)
	assert.True(t, begun.Lasts)
	assert.Equal(t, "new Nodes are no longer gated\n", out.String(), "nothing is deleted")
}

// registersAt has dry runs registered at an API server that gates new Nodes or does not.
func registersAt(t *testing.T, e *emergency, gates func(ctx context.Context) bool) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		if gates(r.Context()) {
			node.Spec.Taints = []corev1.Taint{policy.DefaultGate.Taint()}
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(node))
	}))
	t.Cleanup(server.Close)
	var err error
	e.registrationDryRun, err = webhook.NewDryRun(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	e.settleTime, e.awaitTimeout = time.Millisecond, time.Second
}

// Whichever process opened them: this command, capture or verify.
func TestADeclarationSaysWhichNodesWereClosedAndWhatKeepsPodsOffThemNow(t *testing.T) {
	unverified := corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}
	nodes := func(frozen bool) (e *emergency, out *bytes.Buffer) {
		cordoned := withTaints("cordoned", unverified)
		cordoned.Spec.Unschedulable = true
		e, client, out := emergencyOn(t, append(gatesNodes(), withTaints("open"), withTaints("gated", policy.DefaultGate.Taint()), cordoned)...)
		registersAt(t, e, func(context.Context) bool { return false })
		frees := func(clienttesting.Action) (bool, runtime.Object, error) { // capture and verify are faster
			for _, item := range []*corev1.Node{withTaints("gated"), cordoned} {
				freed := item.DeepCopy()
				if freed.Spec.Taints = nil; !frozen || item.Name != "gated" {
					assert.NoError(t, client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), freed, ""))
				}
			}
			return false, nil, nil
		}
		client.PrependReactor("create", "rolebindings", frees)
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "gated", errDenied{})
		})
		return e, out
	}
	planned := func(frozen bool) (*emergency, *bytes.Buffer) {
		e, out := nodes(frozen)
		_, _, err := e.plan(t.Context())
		require.NoError(t, err)
		return e, out
	}
	e, out := planned(false)
	require.NoError(t, e.declare(t.Context()))
	assert.Contains(t, out.String(), `new Nodes are no longer gated
closed by nodekeep before: 2 (cordoned, gated). None of them is closed by nodekeep now
kept from all or some Pods by something else: 1 (cordoned: cordoned)
the emergency is declared: the API server gates no new Node until it is ended
to end it: nodekeep emergency --end
`)

	e, out = planned(true)
	require.ErrorContains(t, e.declare(t.Context()), "not all could be done. Correct the cause, and run it again:\n1 Node behind the gate still")
	assert.Contains(t, out.String(), "closed by nodekeep before: 2 (cordoned, gated)\nbehind the gate or a verification taint now: 1 (gated); run it again\n")
	assert.NotContains(t, out.String(), "the emergency is declared")
}

func TestObjectsThatDeclareNothingAreNoSuccess(t *testing.T) {
	e, _, out := emergencyOn(t)
	require.NoError(t, e.createObjects(t.Context()))
	require.NoError(t, e.createObjects(t.Context()), "once more")
	assert.Contains(t, out.String(), "RoleBinding nodekeep-emergency: is there")

	states := func(e *emergency) (states []string) {
		for _, object := range e.toCreate(t.Context()) {
			states = append(states, object.Kind+" "+object.Step)
		}
		return states
	}
	assert.Equal(t, []string{"Role there", "RoleBinding there"}, states(e))

	o := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: manifests.EmergencyName, Namespace: DefaultNamespace}}
	e, client, _ := emergencyOn(t)
	client.PrependReactor("create", "roles", func(clienttesting.Action) (bool, runtime.Object, error) { // another client is faster
		require.NoError(t, client.Tracker().Add(o))
		return true, nil, apierrors.NewAlreadyExists(rbacv1.Resource("roles"), o.Name)
	})
	assert.Equal(t, []string{"Role to be created", "RoleBinding to be created"}, states(e))
	require.ErrorIs(t, e.createObjects(t.Context()), errUndeclared)
	assert.Equal(t, []string{"Role to be replaced: it declares nothing", "RoleBinding there"}, states(e))
}

// refusesDryRuns has the API server refuse dry runs.
func refusesDryRuns(t *testing.T, e *emergency) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	var err error
	e.registrationDryRun, err = webhook.NewDryRun(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	e.settleTime, e.awaitTimeout = time.Millisecond, time.Second
}

func TestADeclarationWhoseDryRunsAreRefusedIsNoProof(t *testing.T) {
	e, _, out := emergencyOn(t, gatesNodes()...)
	refusesDryRuns(t, e)
	require.EqualError(t, e.declare(t.Context()), "it is not proved that the API server gates no new Node: it refuses dry runs")
	assert.Contains(t, out.String(), "\nthe emergency is declared\nto end it: nodekeep emergency --end\n")
}

func TestADeclarationSaysThatWhatGatesIsNotThere(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{"nothing of it": nil, "all but the gate policy": gatesNodes()[1:]} {
		t.Run(name, func(t *testing.T) {
			e, _, out := emergencyOn(t, objects...)
			registersAt(t, e, func(context.Context) bool { return false })
			require.NoError(t, e.declare(t.Context()))
			assert.Regexp(t, `\nthe emergency is declared, and the API server gates no new Node now\nnot there: .*MutatingAdmissionPolicy nodekeep-gate.*: nodekeep doctor\n`, out.String())
		})
	}
}

func TestADeclarationThatCannotBeReadIsNoSuccess(t *testing.T) {
	e, client, _ := emergencyOn(t)
	client.PrependReactor("get", "rolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(rbacv1.Resource("rolebindings"), manifests.EmergencyName, errDenied{})
	})
	require.ErrorContains(t, e.createObjects(t.Context()), "whether the emergency is declared is not known")
}

func TestTheEndOfAnEmergencyDoesWithoutTheRightToProveIt(t *testing.T) {
	e, client, _ := emergencyOn(t, gatesNodes()...)
	for _, right := range (&emergencyOptions{options: &options{}, end: true}).rights(e.session, nil) {
		assert.NotEqual(t, "impersonate", right.Verb)
	}
	require.NoError(t, e.createObjects(t.Context()))
	allowed := true
	client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
	proof := func() string {
		document, _, err := e.endPlan(t.Context())
		require.NoError(t, err)
		for _, fact := range document.Facts {
			if fact.Name == "Proof" {
				return fact.Value
			}
		}
		return ""
	}
	assert.Empty(t, proof())
	allowed = false
	assert.Equal(t, "none: you may not impersonate users in the whole cluster", proof())
}

func TestThePlanOfTheEndSaysThatNodesAreGatedOnlyWhereWhatGatesIsKnown(t *testing.T) {
	e, client, _ := emergencyOn(t, gatesNodes()...)
	require.NoError(t, e.createObjects(t.Context()))
	says := func(text string) {
		t.Helper()
		document, _, err := e.endPlan(t.Context())
		require.NoError(t, err)
		assert.Contains(t, document.Facts, view.Fact{Name: "From then on", Value: text})
	}
	says("new Nodes are gated and verified again, as the policy says")
	client.PrependReactor("get", "mutatingadmissionpolicybindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(admissionregistrationv1.Resource("mutatingadmissionpolicybindings"), gateObjectName, errDenied{})
	})
	says("new Nodes are verified again, as the policy says")
}

func TestAnEmergencyThatThePlanOfTheEndDidNotShowIsNotEnded(t *testing.T) {
	e, client, out := emergencyOn(t, gatesNodes()...)
	require.NoError(t, e.createObjects(t.Context()))
	roles, bindings := client.RbacV1().Roles(DefaultNamespace), client.RbacV1().RoleBindings(DefaultNamespace)
	role, err := roles.Get(t.Context(), manifests.EmergencyName, metav1.GetOptions{})
	require.NoError(t, err)
	stays := func(reason string) {
		t.Helper()
		out.Reset()
		err := e.endEmergency(t.Context())
		require.ErrorIs(t, err, errUnplanned, reason)
		code, _ := ExitCode(err)
		assert.Equal(t, exitNotDone, code)
		assert.Empty(t, out.String())
		_, err = bindings.Get(t.Context(), manifests.EmergencyName, metav1.GetOptions{})
		assert.NoError(t, err)
	}

	require.NoError(t, roles.Delete(t.Context(), role.Name, metav1.DeleteOptions{}))
	_, needed, err := e.endPlan(t.Context())
	require.NoError(t, err)
	require.True(t, needed)
	_, err = roles.Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	stays("another client has completed it")

	_, _, err = e.endPlan(t.Context())
	require.NoError(t, err)
	binding, err := bindings.Get(t.Context(), manifests.EmergencyName, metav1.GetOptions{})
	require.NoError(t, err)
	binding.CreationTimestamp = metav1.Now()
	_, err = bindings.Update(t.Context(), binding, metav1.UpdateOptions{})
	require.NoError(t, err)
	stays("it is another one")

	client.PrependReactor("get", "rolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(rbacv1.Resource("rolebindings"), manifests.EmergencyName, errDenied{})
	})
	err = e.endEmergency(t.Context())
	require.ErrorContains(t, err, "nothing was changed: ")
	code, _ := ExitCode(err)
	assert.Equal(t, exitNotDone, code)
}

func TestAnEndWhoseProofIsInterruptedExitsAsCtrlCDoes(t *testing.T) {
	for name, test := range map[string]struct {
		ends func(context.Context) (context.Context, context.CancelFunc) // the context, also by Ctrl-C
		code int
		says string
	}{
		"Ctrl-C":    {context.WithCancel, exitInterrupted, "interrupted: it is not proved that nodekeep acts on new Nodes again: the wait was interrupted."},
		"--timeout": {func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }, exitFindings, "it is not proved that nodekeep acts on new Nodes again: nodekeep did not act on every dry run within --timeout."},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, out := emergencyOn(t, gatesNodes()...)
			require.NoError(t, e.createObjects(t.Context()))
			_, _, err := e.endPlan(t.Context())
			require.NoError(t, err)
			ctx, ctrlC := test.ends(t.Context())
			registersAt(t, e, func(context.Context) bool {
				ctrlC()
				return false
			})
			e.awaitTimeout = time.Minute
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()

			err = asInterrupted(ctx, e.endEmergency(limited))

			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), test.says), err)
			code, _ := ExitCode(err)
			assert.Equal(t, test.code, code)
			assert.Contains(t, out.String(), "the emergency is ended\n")
		})
	}
	assert.NoError(t, asInterrupted(t.Context(), nil))
}

// ends plans the end of an emergency, and ends it.
func (e *emergency) ends(t *testing.T) error {
	t.Helper()
	_, needed, err := e.endPlan(t.Context())
	require.NoError(t, err)
	require.True(t, needed)
	return e.endEmergency(t.Context())
}

func TestTheEndOfAnEmergencySaysWhatIsNotThere(t *testing.T) {
	e, client, out := emergencyOn(t)
	require.NoError(t, e.createObjects(t.Context()))
	require.ErrorContains(t, e.ends(t), "it is not proved that nodekeep acts on new Nodes again: neither the gate policy is in force, nor does the API server call the webhook. No emergency is declared now, so to run this again proves nothing. What shows whether nodekeep acts: nodekeep doctor")
	assert.Contains(t, out.String(), "\nthe emergency is ended\nnot there: MutatingAdmissionPolicyBinding nodekeep-gate, RoleBinding nodekeep-gate, MutatingAdmissionPolicy nodekeep-gate, Role nodekeep-gate: so the gate policy adds no gate.")
	assert.Contains(t, out.String(), "\nnot there: MutatingWebhookConfiguration nodekeep: so the API server does not call the webhook for new Nodes.")

	require.NoError(t, e.createObjects(t.Context()))
	require.NoError(t, client.RbacV1().Roles(DefaultNamespace).Delete(t.Context(), manifests.EmergencyName, metav1.DeleteOptions{}))
	out.Reset()
	require.NoError(t, e.ends(t))
	assert.Contains(t, out.String(), "no emergency was declared, and what was left of one is removed\n")
}

// The plan is what the operator has agreed to.
func TestTheEndOfAnEmergencyIsOfTheOneThatWasPlanned(t *testing.T) {
	e, client, out := emergencyOn(t, gatesNodes()...)
	registersAt(t, e, func(context.Context) bool { return true })
	require.NoError(t, e.createObjects(t.Context()))
	_, _, err := e.endPlan(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.RbacV1().Roles(DefaultNamespace).Delete(t.Context(), manifests.EmergencyName, metav1.DeleteOptions{}))
	require.NoError(t, e.endEmergency(t.Context()))
	assert.Contains(t, out.String(), "the emergency is ended: nodekeep acts on new Nodes again\n", "one was declared, and is not now")
}

func TestTheEndOfAnEmergencyClaimsThatNewNodesAreGatedOnlyOnceThatIsProved(t *testing.T) {
	for name, test := range map[string]struct {
		objects []runtime.Object
		gates   bool
		refused bool
		err     string
	}{
		"each dry run is gated":                            {objects: gatesNodes(), gates: true},
		"the webhook acts, and there is no gate policy":    {objects: []runtime.Object{gateCalls(true)}, gates: true},
		"no dry run is gated":                              {objects: gatesNodes(), err: "nodekeep did not act on every dry run within 1.001s"},
		"the webhook is down, and there is no gate policy": {objects: []runtime.Object{gateCalls(true)}, err: "nodekeep did not act on every dry run within 1.001s"},
		"the API server allows no dry run":                 {objects: gatesNodes(), refused: true, err: "the API server refuses a dry run ("},
	} {
		t.Run(name, func(t *testing.T) {
			e, client, out := emergencyOn(t, test.objects...)
			require.NoError(t, e.createObjects(t.Context()))
			registersAt(t, e, func(ctx context.Context) bool {
				_, err := client.RbacV1().RoleBindings(DefaultNamespace).Get(ctx, manifests.EmergencyName, metav1.GetOptions{})
				assert.True(t, apierrors.IsNotFound(err), "it is ended first")
				return test.gates
			})
			if test.refused {
				refusesDryRuns(t, e)
			}
			err := e.ends(t)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "it is not proved that nodekeep acts on new Nodes again: "+test.err)
			}
			assert.Contains(t, out.String(), "\nto see whether all is well: nodekeep doctor\n")
			assert.Equal(t, test.gates, strings.Contains(out.String(), "acts on new Nodes again"))
		})
	}
}

func TestAnUninstallLeavesTheEmergencyAndSaysHowToEndIt(t *testing.T) {
	e, client, _ := emergencyOn(t)
	u := &uninstallRun{nodeOpener: e.nodeOpener}
	stays, err := u.emergencyRemainder(t.Context())
	require.NoError(t, err)
	assert.Empty(t, stays)
	require.NoError(t, e.createObjects(t.Context()))
	stays, err = u.emergencyRemainder(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "the emergency; once nodekeep is deleted, end it: kubectl -n nodekeep-system delete rolebinding,role nodekeep-emergency", stays)
	for _, object := range append(u.gatingObjects(), u.objectsDeletedLast()...) {
		assert.NotEqual(t, manifests.EmergencyName, object.name)
	}
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(rbacv1.Resource("roles"), "", errDenied{})
	})
	stays, err = u.emergencyRemainder(t.Context())
	require.NoError(t, err)
	assert.Contains(t, stays, "an emergency, if one is declared (you may not read it); once nodekeep is deleted")
}

func TestAnEmergencyStopsTheVerificationOfManyNodes(t *testing.T) {
	var nodes []runtime.Object
	for _, name := range []string{"a", "b"} {
		node := withTaints(name)
		node.UID = types.UID(name)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		nodes = append(nodes, node)
	}
	e, client, _ := emergencyOn(t, nodes...)
	p, err := policy.Load([]byte(policytest.Manifest("verify:\n  profiles:\n  - {name: all, checks: [{name: api, api: {}}]}\n")), policy.DefaultGate)
	require.NoError(t, err)
	e.inputs.Policy = p
	require.NoError(t, e.createObjects(t.Context()))
	r := recheckManyFlags{all: true, max: "1"}
	require.NoError(t, r.validate())
	require.Equal(t, intstr.FromInt32(1), r.limit)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = r.closeAll(ctx, e.session, 1)
	require.ErrorIs(t, err, errEmergency)
	require.ErrorContains(t, err, "0 Nodes verified; 2 remain; run it again to go on")
	assert.NotContains(t, err.Error(), "nothing was changed")
	for _, action := range client.Actions() {
		assert.NotEqual(t, "patch", action.GetVerb(), "no Node is closed")
	}
}
