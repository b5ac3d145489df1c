package policy

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/record"
)

// Annotations selects the annotations of a Node that are recorded: those of annotations, except those that [annotationOwner] refuses. The zero
// value keeps none. Equal ones are equal by ==.
type Annotations struct {
	patterns string // of annotations, separated by commas
}

// AnnotationsOf returns those that [Annotations.String] wrote.
func AnnotationsOf(text string) Annotations { return Annotations{patterns: text} }

// String names the patterns.
func (a Annotations) String() string { return a.patterns }

// Configured reports whether any annotation is kept.
func (a Annotations) Configured() bool { return a.patterns != "" }

// Keeps reports whether an annotation is recorded, and why, as [Policy.Keeps] does.
func (a Annotations) Keeps(annotation string) (keeps bool, reason string) {
	pattern, kept := a.keep().match(annotation)
	if !kept {
		return false, "the annotations of the policy do not select it"
	}
	if owner, owned := annotationOwner(annotation); owned {
		return false, "it belongs to " + owner
	}
	return true, "annotations has " + pattern
}

func (a Annotations) keep() patterns {
	if !a.Configured() {
		return nil
	}
	return strings.Split(a.patterns, ",")
}

// Select selects the recorded annotations from those of a Node. The result tooLarge has the keys whose values have no room. A kubelet can write
// any annotation on its own Node. Both are as readers of JSON see them.
func (a Annotations) Select(all map[string]string) (kept map[string]string, tooLarge []string) {
	if !a.Configured() {
		return nil, nil
	}
	kept = map[string]string{}
	room := record.MaxAnnotationsBytes
	all = TextMap(all)
	for _, annotation := range slices.Sorted(maps.Keys(all)) {
		if keeps, _ := a.Keeps(annotation); !keeps {
			continue
		}
		value := all[annotation]
		size := record.AnnotationSize(annotation, value)
		if len(value) > record.MaxAnnotationBytes || size > room {
			tooLarge = append(tooLarge, annotation)
			continue
		}
		kept[annotation], room = value, room-size
	}
	return kept, tooLarge
}

// Annotations returns those that the policy keeps.
func (p Policy) Annotations() Annotations { return p.annotations }

// literalDomain is a glob whose part before the slash ends in a domain of two names or more: "example.com/*", "*.example.com/rack-*".
var literalDomain = regexp.MustCompile(`^(?:[^/]*\.)?[A-Za-z0-9-]+\.[A-Za-z0-9-]+/`)

// readAnnotations checks annotations. Unlike labels, annotations hold the state of many components. So a wildcard must name the owner
// of the annotations that it keeps.
func (p *Policy) readAnnotations(keep patterns, path *field.Path) field.ErrorList {
	errs := keep.validate(path)
	for i, pattern := range keep {
		owner, owned := annotationOwner(pattern)
		switch {
		case owned:
			errs = append(errs, field.Forbidden(path.Index(i), pattern+" belongs to "+owner+": it is a command, or the state of one machine, and is never restored"))
		case strings.Contains(pattern, "*") && !literalDomain.MatchString(pattern):
			errs = append(errs, field.Invalid(path.Index(i), pattern, "is too wide: a pattern with '*' must name a domain before the '/', such as example.com/*"))
		}
	}
	p.annotations = Annotations{patterns: strings.Join(keep, ",")}
	return errs
}

// annotationsFit drops from what a Node would be given the annotations that it has no room for. The smaller keys come first, so that it
// is the same ones each time.
func (r *Restore) annotationsFit(current KeptItems) {
	total := totalAnnotationsLimit - ownReserve - current.AnnotationBytes
	room := record.MaxAnnotationsBytes
	for key, value := range current.Items {
		if annotation, ok := record.Annotation(key); ok {
			room -= record.AnnotationSize(annotation, value)
		}
	}
	for _, annotation := range slices.Sorted(maps.Keys(record.SplitAnnotations(r.Add))) {
		key := record.AnnotationKey(annotation)
		size, bytes := record.AnnotationSize(annotation, r.Add[key]), len(annotation)+len(r.Add[key])
		if size > room || bytes > total {
			delete(r.Add, key)
			r.Withheld[key] = NoRoom
			continue
		}
		room, total = room-size, total-bytes
	}
}
