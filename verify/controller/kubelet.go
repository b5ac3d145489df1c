package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/verify"
)

// logTimeout bounds one try to read a log. A kubelet that does not answer takes a worker of the controller for that long.
const logTimeout = 3 * time.Second

// kubeletsAnswer is the kind that the API server names in an answer that it passes on from the kubelet. Its own are about pods
// (registry/core/pod/rest/log.go in Kubernetes).
const kubeletsAnswer = "pods/log"

// errLog reports that nothing but a log is not known.
var errLog = errors.New("read log of worker Pod")

// readLog reads a byte of a worker's log if nothing else is left to know of its Pod. An error is either [errLog] or that of the context. [errLog] is
// a fault of the API server or of this process's rights, not of the Node.
func (c *Controller) readLog(ctx context.Context, pod *verify.Pod, profile verify.CompiledProfile) error {
	if !pod.Deleted.IsZero() || !verify.Judge(*pod, profile, c.Now()).NeedsLog {
		return nil
	}
	timed, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := c.Client.CoreV1().Pods(c.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: verify.Worker, LimitBytes: new(int64(1))}).Stream(timed)
	if err == nil {
		_, err = io.Copy(io.Discard, stream)
		_ = stream.Close() // it was read
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	log, ofNode := logOf(err)
	if !ofNode {
		return fmt.Errorf("%w %q: %w", errLog, pod.Name, err)
	}
	pod.Log = log
	return nil
}

// logOf reports what an answer means; ofNode is false where it says nothing of the Node.
func logOf(err error) (log verify.Log, ofNode bool) {
	log = verify.Log{Asked: true}
	if err == nil {
		return log, true
	}
	log.Message = "the API server cannot read a log from the kubelet: " + err.Error()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		if !errors.Is(err, context.DeadlineExceeded) {
			return verify.Log{}, false
		}
		log.Reason = verify.ReasonTimeout
		return log, true
	}
	switch text := err.Error(); {
	case ptr.Deref(status.Status().Details, metav1.StatusDetails{}).Kind == kubeletsAnswer:
		log.Reason = verify.ReasonNotServing
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsUnauthorized(err):
		return verify.Log{}, false // this process's rights, a Pod that is deleted, an API server that is busy
	case strings.Contains(text, "tls: "), strings.Contains(text, "x509: "):
		log.Reason = verify.ReasonCertificate
	case strings.Contains(text, "connection refused"):
		log.Reason = verify.ReasonRefused
	case strings.Contains(text, "no route to host"), strings.Contains(text, "network is unreachable"):
		log.Reason = verify.ReasonUnreachable
	case strings.Contains(text, "timeout"), strings.Contains(text, "deadline exceeded"):
		log.Reason = verify.ReasonTimeout
	default:
		log.Reason = verify.ReasonNotServing
	}
	return log, true
}
