package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// syncTimeout bounds one check with all its writes. So an API server that never answers cannot keep Run from trying again.
	syncTimeout = 30 * time.Second

	// maxPasses is enough for every replica of a large Deployment to lose each race once.
	maxPasses = 20
)

// sync looks and acts until nothing is left to do.
func (s *SelfSigned) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for range maxPasses {
		if retry, err := s.pass(ctx); !retry {
			return err
		}
	}
	return fmt.Errorf("update secret %q: it is still changing after %d tries", s.secret(), maxPasses)
}

// pass reads everything, publishes the bundle of the Secret, and serves its certificate. It makes at most one change to the Secret. The
// result again asks for another pass. After a change, the next pass continues. After a conflict, the decision may be out of date.
func (s *SelfSigned) pass(ctx context.Context) (retry bool, err error) {
	// Before the Secret, see the invariants of the package.
	configurations, readErr := s.configurations(ctx)
	secret, err := s.client.CoreV1().Secrets(s.opts.Namespace).Get(ctx, secretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w; the manifests ship it empty, apply them and it will be filled", err)
	}
	if err != nil {
		return false, errors.Join(readErr, fmt.Errorf("get secret %q: %w", s.secret(), err))
	}
	st, fault := decode(secret.Data)
	s.complain(ctx, fault)

	now := s.opts.Clock.Now()
	held, injectErr := s.inject(ctx, configurations, st)
	s.adopt(ctx, st, now)
	if apierrors.IsConflict(injectErr) {
		return true, nil
	}
	otherErr := errors.Join(readErr, injectErr)

	d := decide(st, s.wanted, held && otherErr == nil, now)
	if d.action == keep {
		return false, otherErr
	}
	if err := s.write(ctx, secret, st, d, now); err != nil && !apierrors.IsConflict(err) {
		return false, errors.Join(otherErr, err)
	}
	return true, nil
}

// write carries out d in the Secret, provided that it is still as it was read.
func (s *SelfSigned) write(ctx context.Context, secret *corev1.Secret, st state, d decision, now time.Time) error {
	st, err := renew(st, d.action, s.wanted, now)
	if err != nil {
		return fmt.Errorf("%s: %w", d.action, err)
	}
	data, err := encode(st)
	if err != nil {
		return err
	}
	changed := secret.DeepCopy()
	changed.Data = merge(secret.Data, data)
	if _, err := s.client.CoreV1().Secrets(s.opts.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("update secret %q: %w", s.secret(), err)
	}
	s.log.InfoContext(ctx, "certificates changed", "action", string(d.action), "reasons", d.reasons, "secret", s.secret())
	return nil
}

// adopt serves the leaf of st from now on if a verifier would accept it. Otherwise the one in hand is no worse.
func (s *SelfSigned) adopt(ctx context.Context, st state, now time.Time) {
	if unservable(st, now) != nil {
		return
	}
	if old := s.serving.Load(); old != nil && bytes.Equal(old.Leaf.Raw, st.leaf.cert.Raw) {
		return
	}
	s.serving.Store(&tls.Certificate{Certificate: [][]byte{st.leaf.cert.Raw}, PrivateKey: st.leaf.key, Leaf: st.leaf.cert})
	s.log.InfoContext(ctx, "serving certificate loaded", "serial", st.leaf.cert.SerialNumber.Text(16), "notAfter", st.leaf.cert.NotAfter)
}

// complain logs what is wrong with the Secret, once until that changes.
func (s *SelfSigned) complain(ctx context.Context, fault error) {
	text := ""
	if fault != nil {
		text = fault.Error()
	}
	if text != "" && text != s.complained {
		s.log.ErrorContext(ctx, "secret holds data that cannot be used, what is needed is issued anew", "secret", s.secret(), "err", fault)
	}
	s.complained = text
}
