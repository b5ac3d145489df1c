package webhook

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestAReviewOfADeletionNamesANodeObjectOrNone(t *testing.T) {
	const metadata = `"metadata":{"name":"n1","uid":"u1"}`
	for name, c := range map[string]struct {
		object, request string
		ok              bool
	}{
		"as the API server sends it":             {`{"kind":"Node",` + metadata + `,"spec":{}}`, "n1", true},
		"deletecollection has no name":           {`{` + metadata + `}`, "", true},
		"metadata is last":                       {`{"spec":{"taints":[{}]},"status":{"a":[1,{"metadata":{"name":"n2"}}]},` + metadata + `}`, "n1", true},
		"what follows metadata is not read":      {`{` + metadata + `,"spec":{`, "n1", true},
		"metadata stands in a status only":       {`{"status":{` + metadata + `}}`, "n1", false},
		"metadata is a list":                     {`{"metadata":["n1","u1"]}`, "n1", false},
		"metadata is cut off":                    {`{"metadata":{"name":"n1","uid":"u1"`, "n1", false},
		"the name is another than the request's": {`{` + metadata + `}`, "n2", false},
		"the name is a path":                     {`{"metadata":{"name":"../secrets/x","uid":"u1"}}`, "", false},
		"the name is too long":                   {`{"metadata":{"name":"` + strings.Repeat("n", 254) + `","uid":"u1"}}`, "", false},
		"the name is a number":                   {`{"metadata":{"name":1,"uid":"u1"}}`, "", false},
		"the name is empty":                      {`{"metadata":{"name":"","uid":"u1"}}`, "", false},
		"there is no UID":                        {`{"metadata":{"name":"n1"}}`, "n1", false},
		"the UID is too long":                    {`{"metadata":{"name":"n1","uid":"` + strings.Repeat("u", longestUID+1) + `"}}`, "n1", false},
		"the object is a list":                   {`[{` + metadata + `}]`, "n1", false},
		"the object is null":                     {`null`, "n1", false},
		"the object is empty":                    {``, "n1", false},
		"the object is nested a million deep":    {`{"a":` + strings.Repeat(`[`, 1_000_000), "n1", false},
	} {
		t.Run(name, func(t *testing.T) {
			h, ok := hinted(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: c.request, OldObject: runtime.RawExtension{Raw: []byte(c.object)}}})
			assert.Equal(t, c.ok, ok)
			if ok {
				assert.Equal(t, hint{"n1", "u1"}, h)
			}
		})
	}
}
