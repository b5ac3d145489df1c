package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/policy"
)

// Start starts both processes.
func (i *Installation) Start(ctx context.Context) error {
	if err := i.StartWebhook(ctx); err != nil {
		return err
	}
	return i.StartCapture(ctx)
}

// StartWebhook starts the webhook and returns when the API server calls it: a dry-run CREATE shows its stamp.
func (i *Installation) StartWebhook(ctx context.Context) error {
	err := i.run(ctx, webhookName, "webhook", "--cert-names", "127.0.0.1",
		"--bind-address", "127.0.0.1:"+i.webhookPort, "--drain", "0s")
	if err != nil {
		return err
	}
	if err := i.pointAtLoopback(ctx); err != nil {
		return err
	}
	return i.waitCalled(ctx)
}

// StopWebhook stops it politely and returns when it has ended. The API server continues calling it, without effect.
func (i *Installation) StopWebhook() error { return i.stop(webhookName) }

// StartCapture starts capture and returns when its caches are warm.
func (i *Installation) StartCapture(ctx context.Context) error {
	return i.run(ctx, captureName, append([]string{"capture", "--leader-elect"}, i.CaptureArgs...)...)
}

// StopCapture stops it politely: it leaves its Lease to the next one.
func (i *Installation) StopCapture() error { return i.stop(captureName) }

// pointAtLoopback replaces the Service by a URL in the webhook configurations, and the timeout where another one is wanted. It
// leaves all else, the caBundle included.
func (i *Installation) pointAtLoopback(ctx context.Context) error {
	client := i.Admin.AdmissionregistrationV1().RESTClient()
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		found, err := client.Get().Resource(resource).Name("nodekeep").Do(ctx).Raw()
		if err != nil {
			return fmt.Errorf("read %s: %w", resource, err)
		}
		patch, err := i.loopbackPatch(found)
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		if err := client.Patch(types.JSONPatchType).Resource(resource).Name("nodekeep").Body(patch).Do(ctx).Error(); err != nil {
			return fmt.Errorf("point %s at loopback: %w", resource, err)
		}
	}
	return nil
}

// loopbackPatch is nil where nothing is to be done.
func (i *Installation) loopbackPatch(configuration []byte) ([]byte, error) {
	var webhooks admissionregistrationv1.MutatingWebhookConfiguration // a validating one has the same fields here
	if err := json.Unmarshal(configuration, &webhooks); err != nil {
		return nil, fmt.Errorf("decode webhook configuration: %w", err)
	}
	var operations []map[string]any
	for n, hook := range webhooks.Webhooks {
		if hook.ClientConfig.Service == nil {
			continue
		}
		path := fmt.Sprintf("/webhooks/%d/", n)
		operations = append(operations,
			map[string]any{"op": "remove", "path": path + "clientConfig/service"},
			map[string]any{"op": "add", "path": path + "clientConfig/url", "value": "https://127.0.0.1:" + i.webhookPort + *hook.ClientConfig.Service.Path})
		if i.TimeoutSeconds != 0 {
			operations = append(operations, map[string]any{"op": "replace", "path": path + "timeoutSeconds", "value": i.TimeoutSeconds})
		}
	}
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}

// waitCalled waits until the API server calls the webhook and believes its certificate.
func (i *Installation) waitCalled(ctx context.Context) error {
	probe := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "nodekeep-install-probe"}}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		node, err := i.Admin.CoreV1().Nodes().Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		_, stamped := node.Annotations[policy.StampAnnotation]
		return stamped, nil
	})
	if err != nil {
		log, _ := os.ReadFile(i.Cluster.LogPath(webhookName))
		return errors.Join(fmt.Errorf("wait until the API server calls the webhook: %w", err), errors.New(string(log)))
	}
	return nil
}
