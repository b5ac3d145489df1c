package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits for the annotations of a Node in a record. The API server allows 256 KiB for all annotations of an object.
const (
	MaxAnnotationBytes  = 8 << 10  // of one value
	MaxAnnotationsBytes = 64 << 10 // of all of a Node, see [AnnotationSize]
)

// annotationMark begins the key of an annotation. No label or taint key can hold it.
const annotationMark = "@"

// AnnotationKey returns the key of an item that is an annotation: "@example.com/owner".
func AnnotationKey(annotation string) string { return annotationMark + annotation }

// IsAnnotation reports whether a key is that of an annotation.
func IsAnnotation(key string) bool { return strings.HasPrefix(key, annotationMark) }

// IsLabel reports whether a key is that of a label.
func IsLabel(key string) bool { return !IsAnnotation(key) && !IsTaint(key) }

// Annotation returns the annotation that a key names; ok is false for a label or a taint.
func Annotation(key string) (annotation string, ok bool) {
	return strings.CutPrefix(key, annotationMark)
}

// JoinAnnotations adds annotations to items.
func JoinAnnotations(items, annotations map[string]string) {
	for annotation, value := range annotations {
		items[AnnotationKey(annotation)] = value
	}
}

// SplitAnnotations returns those of the items that [Split] leaves out; nil where there are none.
func SplitAnnotations(items map[string]string) (annotations map[string]string) {
	for key, value := range items {
		if annotation, ok := Annotation(key); ok {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[annotation] = value
		}
	}
	return annotations
}

// AnnotationSize returns the number of bytes that an annotation takes in the JSON of a record. A record counts these, so that no value grows
// there beyond what the limit allows.
func AnnotationSize(key, value string) int {
	written, err := json.Marshal(value)
	if err != nil {
		panic("marshal a string: " + err.Error()) // cannot happen
	}
	return len(key) + len(written)
}

// validAnnotation follows ValidateAnnotations of k8s.io/apimachinery, which compares keys without their case.
func validAnnotation(annotation, value string) bool {
	return len(validation.IsQualifiedName(strings.ToLower(annotation))) == 0 && len(value) <= MaxAnnotationBytes
}

// maxListedBytes is the longest value of an annotation that a stamp holds as it is. A label has no longer one.
const maxListedBytes = validation.LabelValueMaxLength

// StampValue returns how a stamp lists the value of an item: the value or, for a long annotation, its hash. A stamp is itself an annotation, and
// must not double the size of what it lists.
func StampValue(key, value string) string {
	if !IsAnnotation(key) || len(value) <= maxListedBytes {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:16])
}
