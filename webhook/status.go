package webhook

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/classify"
)

// readStatus reads what machines and rules use: nodeInfo, the capacity and allocatable of resources in rules, and declared features. A value of another type than the API's is not known. The API server writes images, most
// of a Node, after that. If the status is the last part that is needed, images are not read.
func readStatus(decoder *jsontext.Decoder, rules classify.Rules, last bool) (status corev1.NodeStatus, err error) {
	capacity, allocatable := rules.Resources()
	left, declared := 3, rules.Declared()
	if !declared.Empty() {
		left++
	}
	err = members(decoder, func(name string) (proceed bool, err error) {
		left--
		switch {
		case name == "capacity":
			status.Capacity, err = readResources(decoder, capacity)
		case name == "allocatable":
			status.Allocatable, err = readResources(decoder, allocatable)
		case name == "nodeInfo":
			err = readInfo(decoder, &status.NodeInfo)
		case name == "declaredFeatures" && !declared.Empty():
			status.DeclaredFeatures, err = readDeclared(decoder, declared)
		default:
			left++
			err = decoder.SkipValue()
		}
		return left > 0 || !last, err
	})
	return status, err
}

// readInfo reads the texts of nodeInfo that are used.
func readInfo(decoder *jsontext.Decoder, info *corev1.NodeSystemInfo) error {
	return members(decoder, func(name string) (proceed bool, err error) {
		text := textOf(info, name)
		if text == nil || decoder.PeekKind() != '"' {
			return true, decoder.SkipValue()
		}
		value, err := decoder.ReadToken()
		if err == nil {
			*text = value.String()
		}
		return true, err
	})
}

// textOf returns where a text of nodeInfo is stored; nil: it is not needed.
func textOf(info *corev1.NodeSystemInfo, name string) *string {
	switch name {
	case "machineID":
		return &info.MachineID
	case "bootID":
		return &info.BootID
	case "systemUUID":
		return &info.SystemUUID
	case "architecture":
		return &info.Architecture
	case "operatingSystem":
		return &info.OperatingSystem
	case "kernelVersion":
		return &info.KernelVersion
	case "containerRuntimeVersion":
		return &info.ContainerRuntimeVersion
	case "kubeletVersion":
		return &info.KubeletVersion
	}
	return nil
}

// readResources reads the quantities of resources that are used.
func readResources(decoder *jsontext.Decoder, used map[string]bool) (corev1.ResourceList, error) {
	if len(used) == 0 {
		return nil, decoder.SkipValue()
	}
	list := corev1.ResourceList{}
	err := members(decoder, func(name string) (proceed bool, err error) {
		if kind := decoder.PeekKind(); !used[name] || kind == '{' || kind == '[' {
			return true, decoder.SkipValue()
		}
		value, err := decoder.ReadToken()
		if err != nil {
			return false, err
		}
		if amount, err := resource.ParseQuantity(strings.TrimSpace(value.String())); err == nil {
			list[corev1.ResourceName(name)] = amount
		}
		return true, nil
	})
	return list, err
}

// members calls read with the name of each member of a JSON object, while read wants more of them. The decoder then stands before the
// value, which read reads or skips. A value that is no object is skipped.
func members(decoder *jsontext.Decoder, read func(name string) (proceed bool, err error)) error {
	if decoder.PeekKind() != '{' {
		return decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		if proceed, err := read(name.String()); err != nil || !proceed {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}

// readDeclared reads the declared features that are used. The first other one shows that the kubelet declares some.
func readDeclared(decoder *jsontext.Decoder, used classify.UsedFeatures) (declared []string, err error) {
	if decoder.PeekKind() != '[' {
		return nil, decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	for decoder.PeekKind() != ']' {
		if decoder.PeekKind() != '"' {
			if err := decoder.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		if text := name.String(); (len(declared) == 0 || slices.Contains(used, text)) && !slices.Contains(declared, text) {
			declared = append(declared, text)
		}
	}
	_, err = decoder.ReadToken()
	return declared, err
}
