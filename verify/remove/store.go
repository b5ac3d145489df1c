package remove

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/verify"
)

// Store keeps the ledger in the ConfigMap [verify.LedgerMap]. The namespace is that of worker Pods: a process that may create ConfigMaps in the release
// namespace could write records.
type Store struct {
	client    kubernetes.Interface
	namespace string
}

// NewStore makes a store.
func NewStore(client kubernetes.Interface, namespace string) *Store {
	return &Store{client: client, namespace: namespace}
}

// Stored is the ledger as it was read.
type Stored struct {
	Ledger verify.Ledger

	object *corev1.ConfigMap // nil: there is none
}

// Read reads the ledger live. One that does not exist is empty. With an error nothing may be removed, since it is not known what was removed before.
func (s *Store) Read(ctx context.Context) (Stored, error) {
	object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, verify.LedgerMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Stored{}, nil
	}
	if err != nil {
		return Stored{}, fmt.Errorf("read ConfigMap %s/%s: %w", s.namespace, verify.LedgerMap, err)
	}
	text, ok := object.Data[verify.LedgerKey]
	if !ok {
		return Stored{}, s.spoiled(fmt.Errorf("it has no key %s", verify.LedgerKey))
	}
	ledger, err := verify.ParseLedger(text)
	if err != nil {
		return Stored{}, s.spoiled(err)
	}
	return Stored{Ledger: ledger, object: object}, nil
}

func (s *Store) spoiled(err error) error {
	return fmt.Errorf("ConfigMap %s/%s: %w; no Node is removed until this is corrected. Deleting the ConfigMap corrects it, "+
		"and nodekeep then forgets which Nodes it removed within the last 24 hours", s.namespace, verify.LedgerMap, err)
}

// Write puts a state in the place of the one that was read, and returns it as it is stored. [ErrChanged] means that another process wrote first.
func (s *Store) Write(ctx context.Context, read Stored, ledger verify.Ledger) (Stored, error) {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	var object *corev1.ConfigMap
	var err error
	if read.object == nil {
		object, err = maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: verify.LedgerMap, Labels: map[string]string{"app.kubernetes.io/managed-by": "nodekeep"}},
			Data:       map[string]string{verify.LedgerKey: ledger.String()},
		}, metav1.CreateOptions{FieldManager: verify.Manager})
	} else {
		changed := read.object.DeepCopy() // with its uid and resourceVersion
		changed.Data[verify.LedgerKey] = ledger.String()
		object, err = maps.Update(ctx, changed, metav1.UpdateOptions{FieldManager: verify.Manager})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) && read.object != nil {
		err = ErrChanged
	}
	if err != nil {
		return Stored{}, fmt.Errorf("write ConfigMap %s/%s: %w", s.namespace, verify.LedgerMap, err)
	}
	return Stored{Ledger: ledger, object: object}, nil
}
