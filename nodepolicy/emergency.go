package nodepolicy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/store"
)

// emergency is whether one is declared, as far as it is known.
type emergency struct {
	holds atomic.Bool

	mu    sync.Mutex // one object at a time changes it
	known Declaration
	blind map[string]string // by kind: why the object cannot be read, as it was logged last
}

// Emergency reports whether an emergency is declared, in a process whose policy is suspended then. While that cannot be read, what was known last
// counts. Only that an object does not exist, or another one, says anything. At its start a process that may not read it takes it that there is none.
func (s *Source) Emergency() bool { return s.stopped.holds.Load() }

// declaring returns the two objects that declare an emergency together.
func (s *Source) declaring() []*singleton {
	if !s.Suspends {
		return nil
	}
	add := func(resource, kind string, known func(*Declaration) *bool, says func(map[string]any) (bool, error)) *singleton {
		note := func(update func(prev bool) bool, err error) {
			s.declared(kind, func(d *Declaration) { *known(d) = update(*known(d)) }, err)
		}
		return &singleton{
			ResourceInterface: s.Objects.Resource(rbacv1.SchemeGroupVersion.WithResource(resource)).Namespace(s.Namespace), name: manifests.EmergencyName, kind: kind,
			saw: func(seen *unstructured.Unstructured) {
				declared, err := says(seen.Object)
				if err != nil {
					err = fmt.Errorf("read %s %q: %w", kind, manifests.EmergencyName, err)
				}
				note(func(prev bool) bool { return declared || err != nil && prev }, err)
			},
			missed: func(err error) {
				note(func(prev bool) bool { return prev && err != nil }, err)
			},
		}
	}
	return []*singleton{
		add("rolebindings", "RoleBinding", func(d *Declaration) *bool { return &d.Bound }, func(object map[string]any) (bool, error) {
			var binding rbacv1.RoleBinding
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &binding)
			return err == nil && Binds(&binding), err
		}),
		add("roles", "Role", func(d *Declaration) *bool { return &d.Granted }, func(object map[string]any) (bool, error) {
			var role rbacv1.Role
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &role)
			return err == nil && Grants(&role), err
		}),
	}
}

// readEmergency reads for the first time whether an emergency is declared. An error means that the API server has not answered.
func (s *Source) readEmergency(ctx context.Context) error {
	for _, declaration := range s.declaring() {
		seen, err := declaration.Get(ctx, declaration.name, metav1.GetOptions{})
		switch {
		case err == nil:
			declaration.saw(seen)
		case store.IsGone(err):
			declaration.missed(nil)
		case answered(err):
			declaration.missed(err)
		default:
			return fmt.Errorf("get %s %q: %w", declaration.kind, declaration.name, err)
		}
	}
	return nil
}

// declared notes what is known of one of the two objects now, and follows it.
func (s *Source) declared(kind string, note func(*Declaration), err error) {
	e := &s.stopped
	e.mu.Lock()
	defer e.mu.Unlock()
	note(&e.known)
	s.sayBlind(kind, err)
	if e.known.Holds() == e.holds.Load() {
		return
	}
	e.holds.Store(e.known.Holds())
	if e.known.Holds() {
		s.Logger.Warn("an emergency is declared; until it is ended, no node is kept behind the gate or verified", "end", "nodekeep emergency --end")
	} else {
		s.Logger.Info("the emergency is ended")
	}
	if s.Known() {
		s.contained(s.changed)
	}
}

// sayBlind logs once why it is not known what an object declares.
func (s *Source) sayBlind(kind string, err error) {
	blind := ""
	if err != nil {
		blind = err.Error()
	}
	if blind != "" && blind != s.stopped.blind[kind] {
		s.Logger.Warn("it cannot be read whether an emergency is declared; what was known last counts", "error", err)
	}
	if s.stopped.blind == nil {
		s.stopped.blind = map[string]string{}
	}
	s.stopped.blind[kind] = blind
}
