package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// shipped are the objects of the manifests that people apply.
func shipped(t *testing.T) (objects []runtime.Object) {
	t.Helper()
	manifests := filepath.Join("..", "..", "manifests")
	for _, file := range []string{"namespace.yaml", "nodekeep.yaml"} {
		content, err := os.ReadFile(filepath.Join(manifests, file))
		require.NoError(t, err)
		objects = append(objects, decode(t, content)...)
	}
	require.NotEmpty(t, objects)
	return objects
}

func decode(t *testing.T, content []byte) (objects []runtime.Object) {
	t.Helper()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil { // comments alone
			require.True(t, runtime.IsMissingKind(err), "%v\n%s", err, document)
			continue
		}
		objects = append(objects, object)
	}
}

// one is the object of that kind and name.
func one[T metav1.Object](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	for _, object := range objects {
		if typed, is := object.(T); is && typed.GetName() == name {
			return typed
		}
	}
	var none T
	require.Failf(t, "not in the manifests", "%T %s", none, name)
	return none
}
