package quantity

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestWhichNamesOfResourcesANodeCanHave(t *testing.T) {
	for name, meant := range map[string]string{ // -: it can have one of that name
		"cpu": "-", "memory": "-", "ephemeral-storage": "-", "pods": "-", "hugepages-2Mi": "-", "hugepages-1Gi": "-", "hugepages-64Ki": "-",
		"attachable-volumes-aws-ebs": "-", "nvidia.com/gpu": "-", "kubernetes.io/batch-cpu": "-", "example.com/memmory": "-",
		"memmory": "memory", "memroy": "memory", "Memory": "memory", "mem": "memory", "CPU": "cpu", "cpus": "cpu", "pod": "pods", "storage": "ephemeral-storage",
		"ephemeral": "ephemeral-storage", "hugepages": "hugepages-2Mi", "hugepages-2MB": "hugepages-2Mi", "hugepages-1G": "hugepages-1Gi", "hugepages-2048Ki": "hugepages-2Mi",
		"hugepages-0": "hugepages-2Mi", "hugepages-3Mi": "hugepages-2Mi", "gpu": "", "gpus": "", "requests.cpu": "", "services": "", "disk": "", "c": "", "x": "", strings.Repeat("x", 63): "",
	} {
		t.Run(name, func(t *testing.T) {
			reason := WrongName(name)
			if meant == "-" {
				assert.Empty(t, reason)
				return
			}
			assert.Contains(t, reason, "is no resource that Kubernetes has")
			if meant == "" {
				assert.NotContains(t, reason, "did you mean")
			} else {
				assert.Contains(t, reason, "(did you mean "+meant+"?)")
			}
		})
	}
	for _, name := range []string{"", "/gpu", "nvidia.com/", "a b", "a/b/c", "\xff/a", strings.Repeat("x", 64)} {
		assert.NotEmpty(t, WrongName(name), "%q", name)
	}
}

func FuzzWrongName(f *testing.F) {
	for _, name := range []string{"memmory", "hugepages-2MB", "hugepages-1e-9999999", "nvidia.com/gpu", "attachable-volumes-", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		reason := WrongName(name)
		if reason == "" {
			require.Empty(t, validation.IsQualifiedName(name))
		}
		if _, tail, found := strings.Cut(reason, "did you mean "); found {
			meant, _, _ := strings.Cut(tail, "?")
			require.Empty(t, WrongName(meant), "what is suggested is right")
		}
	})
}

func TestAnAmountIsReadAtOnceOrNotAtAll(t *testing.T) {
	begin := time.Now()
	for text, right := range map[string]bool{
		"1": true, "500m": true, "64Gi": true, "1.5": true, "1e3": true, "-1": true,
		"": false, "many": false, "64GB": false, "1e-9999999": false, "1e9999999": false, strings.Repeat("1", 41): false,
	} {
		_, err := Parse(text)
		assert.Equal(t, right, err == nil, "%q", text)
	}
	assert.Less(t, time.Since(begin), time.Second)
	half, err := Parse("500m")
	require.NoError(t, err)
	whole, err := Parse("2000m")
	require.NoError(t, err)
	assert.False(t, IsWhole(half))
	assert.True(t, IsWhole(whole))
}
