package nodepolicy

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/policy"
)

const (
	neverManifest = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"labels":{"protected":"never"}}}`
	inline        = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"labels":{"protected":"inline"}}}`
	empty         = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"}}`
	unknown       = `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"labels":{"protected":"sometimes"}}}`
)

func loaded(t *testing.T, manifest string) policy.Policy {
	t.Helper()
	p, err := policy.LoadObject([]byte(manifest), policy.DefaultGate)
	require.NoError(t, err)
	return p
}

func load(manifest []byte) (policy.Policy, error) {
	return policy.LoadObject(manifest, policy.DefaultGate)
}

func forbidden() error {
	return apierrors.NewForbidden(Resource().GroupResource(), name, errors.New("no right"))
}

func broken() error { return apierrors.NewInternalError(errors.New("cannot be decrypted")) }

func TestWhichPolicyAProcessBeginsWith(t *testing.T) {
	for title, c := range map[string]struct {
		object    string
		err       error
		accepted  []string
		want      string // empty: the defaults
		from      origin
		trouble   string // empty: none
		undecided bool
		stopgap   bool
	}{
		"the NodePolicy can be used":                                {object: neverManifest, accepted: []string{inline}, want: neverManifest, from: object},
		"it says nothing":                                           {object: empty, accepted: []string{inline}, want: empty, from: object},
		"it cannot be used, and one was accepted":                   {object: unknown, accepted: []string{inline, neverManifest}, want: inline, from: accepted, trouble: "spec.labels.protected"},
		"it cannot be used, and the newest copy was overwritten":    {object: unknown, accepted: []string{"{", neverManifest}, want: neverManifest, from: accepted, trouble: "spec.labels.protected"},
		"it cannot be used, and the newest copy cannot either":      {object: unknown, accepted: []string{unknown, neverManifest}, want: neverManifest, from: accepted, trouble: "spec.labels.protected"},
		"it cannot be used, and no copy can":                        {object: unknown, accepted: []string{unknown, ""}, trouble: "spec.labels.protected", stopgap: true},
		"it cannot be used, and none was accepted":                  {object: unknown, trouble: "spec.labels.protected", stopgap: true},
		"there is none, and one was accepted":                       {err: errDeleted(), accepted: []string{inline}, want: inline, from: accepted, trouble: "what was accepted last stays in force. An empty spec returns to the defaults"},
		"there is none, and no copy can be used":                    {err: errDeleted(), accepted: []string{unknown}, stopgap: true},
		"there never was one":                                       {err: errDeleted()},
		"it may not be read, and one was accepted":                  {err: forbidden(), accepted: []string{inline}, want: inline, from: accepted, trouble: "cannot be read: "},
		"it may not be read, and none was accepted":                 {err: forbidden(), trouble: "cannot be read: ", stopgap: true},
		"the API server cannot read it, and one was accepted":       {err: broken(), accepted: []string{inline}, want: inline, from: accepted, trouble: "cannot be read: "},
		"the API server cannot read it, and none was accepted":      {err: broken(), trouble: "cannot be read: ", undecided: true, stopgap: true},
		"the API server cannot read it, and no copy can be used":    {err: broken(), accepted: []string{unknown}, trouble: "cannot be read: ", undecided: true, stopgap: true},
		"a copy of a later version has fields that are not known":   {err: errDeleted(), accepted: []string{`{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default"},"spec":{"new":1}}`, neverManifest}, want: neverManifest, from: accepted, trouble: "not found"},
		"a copy was replaced by another object's":                   {err: errDeleted(), accepted: []string{`{"apiVersion":"v1","kind":"Node","metadata":{"name":"default"}}`, neverManifest}, want: neverManifest, from: accepted, trouble: "not found"},
		"the NodePolicy cannot be used, and the only copy is older": {object: unknown, accepted: []string{neverManifest}, want: neverManifest, from: accepted, trouble: "spec.labels.protected"},
	} {
		t.Run(title, func(t *testing.T) {
			found := findings{manifest: []byte(c.object), err: c.err}
			for _, copied := range c.accepted {
				found.accepted = append(found.accepted, []byte(copied))
			}
			got, decided := first(found, load, policy.Default())
			assert.Equal(t, !c.undecided, decided)
			assert.Equal(t, c.from, got.from)
			assert.Equal(t, c.stopgap, got.stopgap())
			assert.Equal(t, c.want, string(got.manifest))
			want := policy.Default()
			if c.want != "" {
				want = loaded(t, c.want)
			}
			assert.Equal(t, want, got.policy)
			requireTrouble(t, c.trouble, got.trouble)
		})
	}
}

func requireTrouble(t *testing.T, want string, got error) {
	t.Helper()
	if want == "" {
		require.NoError(t, got)
		return
	}
	require.ErrorContains(t, got, want)
}

func TestWhatAChangeOfTheNodePolicyDoes(t *testing.T) {
	inForce := func(from origin, manifest string) ruling {
		return ruling{policy: loaded(t, manifest), from: from, manifest: []byte(manifest)}
	}
	bad := inForce(object, neverManifest)
	bad.trouble = errors.New("bad")
	for title, c := range map[string]struct {
		prev     ruling
		manifest string
		want     string
		from     origin
		changed  bool
		trouble  string
	}{
		"it says something else":                       {prev: inForce(object, neverManifest), manifest: inline, want: inline, from: object, changed: true},
		"it cannot be used":                            {prev: inForce(object, neverManifest), manifest: unknown, want: neverManifest, from: object, trouble: "spec.labels.protected"},
		"it says again what is in force":               {prev: bad, manifest: neverManifest, want: neverManifest, from: object},
		"it says something else after a bad one":       {prev: bad, manifest: inline, want: inline, from: object, changed: true},
		"it is bad again":                              {prev: bad, manifest: unknown, want: neverManifest, from: object, trouble: "spec.labels.protected"},
		"it is there again, as it was accepted":        {prev: inForce(accepted, neverManifest), manifest: neverManifest, want: neverManifest, from: object},
		"it is there again, and says something else":   {prev: inForce(accepted, neverManifest), manifest: inline, want: inline, from: object, changed: true},
		"it is there again, and cannot be used":        {prev: inForce(accepted, neverManifest), manifest: unknown, want: neverManifest, from: accepted, trouble: "spec.labels.protected"},
		"the first one comes":                          {prev: ruling{policy: policy.Default()}, manifest: neverManifest, want: neverManifest, from: object, changed: true},
		"the first one comes, and says nothing":        {prev: ruling{policy: policy.Default()}, manifest: empty, want: empty, from: object, changed: true},
		"an empty spec takes the place of what it had": {prev: inForce(object, neverManifest), manifest: empty, want: empty, from: object, changed: true},
	} {
		t.Run(title, func(t *testing.T) {
			got, changed := c.prev.next([]byte(c.manifest), load)
			assert.Equal(t, c.changed, changed)
			assert.Equal(t, c.from, got.from)
			assert.Equal(t, c.want, string(got.manifest))
			requireTrouble(t, c.trouble, got.trouble)
			if want := loaded(t, c.want); changed {
				assert.Equal(t, want.WithPredecessor(c.prev.policy), got.policy, "it knows what was in force before")
			} else {
				assert.Equal(t, want, got.policy)
			}
		})
	}
}

func TestThatThereIsNoNodePolicyChangesNothing(t *testing.T) {
	p := loaded(t, neverManifest)
	for title, c := range map[string]struct {
		prev    ruling
		err     error
		trouble string
	}{
		"it is deleted":                          {ruling{policy: p, from: object, manifest: []byte(neverManifest)}, errDeleted(), `nodepolicies.nodekeep.dev "default" not found; that changes nothing: what was accepted last stays in force. An empty spec returns to the defaults`},
		"it is still missing":                    {ruling{policy: p, from: accepted, manifest: []byte(neverManifest)}, errDeleted(), "not found; that changes nothing"},
		"a bad one is deleted after a good one":  {ruling{policy: p, from: object, manifest: []byte(neverManifest), trouble: errors.New("bad")}, errDeleted(), "not found; that changes nothing"},
		"a bad one is deleted and none was good": {ruling{policy: p, trouble: errors.New("bad")}, errDeleted(), ""},
		"there never was one":                    {ruling{policy: p}, errDeleted(), ""},
		"it may not be read any more":            {ruling{policy: p, from: object, manifest: []byte(neverManifest)}, forbidden(), "NodePolicy default cannot be read: "},
		"it may not be read and never could be":  {ruling{policy: p}, forbidden(), "NodePolicy default cannot be read: "},
	} {
		t.Run(title, func(t *testing.T) {
			got := c.prev.whenAbsent(c.err)
			requireTrouble(t, c.trouble, got.trouble)
			c.prev.trouble, got.trouble = nil, nil
			assert.Equal(t, c.prev, got)
		})
	}
}

func TestWhichErrorsAreAnAnswerOfTheAPIServer(t *testing.T) {
	for title, c := range map[string]struct {
		err  error
		want bool
	}{
		"there is no object":        {errDeleted(), true},
		"there is no resource":      {apierrors.NewGenericServerResponse(404, "get", Resource().GroupResource(), name, "", 0, true), true},
		"no right":                  {forbidden(), true},
		"the object is broken":      {broken(), true},
		"nobody listens":            {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		"the token is not accepted": {apierrors.NewUnauthorized("expired"), false},
		"too many requests":         {apierrors.NewTooManyRequests("later", 1), false},
		"it is not available":       {apierrors.NewServiceUnavailable("starting"), false},
		"it took too long":          {apierrors.NewTimeoutError("slow", 1), false},
		"its storage took too long": {apierrors.NewServerTimeout(Resource().GroupResource(), "get", 1), false},
	} {
		t.Run(title, func(t *testing.T) { assert.Equal(t, c.want, answered(c.err)) })
	}
}

func TestAManifestHasNothingButWhatTheUserSays(t *testing.T) {
	got, err := manifestOf(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "status": map[string]any{"conditions": []any{}},
		"metadata": map[string]any{"name": name, "uid": "1", "labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"labels": map[string]any{"protected": "never"}},
	})
	require.NoError(t, err)
	assert.JSONEq(t, neverManifest, string(got))
	got, err = manifestOf(map[string]any{})
	require.NoError(t, err)
	assert.JSONEq(t, empty, string(got))
}
