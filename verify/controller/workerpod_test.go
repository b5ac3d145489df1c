package controller

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/verify"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestWorkerPodsAskForNoMoreThanTheirChecksNeed(t *testing.T) {
	dns := verify.Check{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}
	for name, checks := range map[string][]verify.Check{
		"plain":     {dns},
		"token":     {dns, {Name: "api", API: &verify.API{}}},
		"container": {{Name: "gpu", Container: &verify.Container{Image: "example.com/gpu:1", Command: []string{"check-gpu"}, Env: map[string]string{"DEVICES": "8"}, RuntimeClassName: "nvidia", Limits: map[string]verify.Quantity{"nvidia.com/gpu": "1"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			profiles, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{{Name: "all", Checks: checks}}}, nil)
			require.Empty(t, errs)
			action := verify.Action{Profile: profiles.All()[0]}
			options := Options{Namespace: "nodekeep-checks", Image: "nodekeep:test", Pull: corev1.PullIfNotPresent}
			made := workerPod(options, "check-1", &verify.Node{Name: "worker-1", UID: "uid-1"}, action, verify.Task{Checks: checks})
			made.APIVersion, made.Kind = "v1", "Pod"
			text, err := yaml.Marshal(made)
			require.NoError(t, err)
			file := filepath.Join("testdata", "worker-pod-"+name+".yaml")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, text, 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(text), "go test ./verify/controller -update writes it anew")
		})
	}
}
