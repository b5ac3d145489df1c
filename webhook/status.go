package webhook

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/classify"
)

// readStatus reads what machines and rules use: nodeInfo, and the capacity and allocatable of resources in rules. A value of another type than the API's is not known. The API server writes images, most
// of a Node, after that. If the status is the last part that is needed, images are not read.
func readStatus(decoder *jsontext.Decoder, rules classify.Rules, last bool) (status corev1.NodeStatus, err error) {
	capacity, allocatable := rules.Resources()
	left := 3
	err = members(decoder, func(name string) (more bool, err error) {
		left--
		switch name {
		case "capacity":
			status.Capacity, err = readResources(decoder, capacity)
		case "allocatable":
			status.Allocatable, err = readResources(decoder, allocatable)
		case "nodeInfo":
			err = readInfo(decoder, &status.NodeInfo)
		default:
			left++
			err = decoder.SkipValue()
		}
		return left > 0 || !last, err
	})
	return status, err
}

// readInfo reads the texts of nodeInfo that machines and rules use.
func readInfo(decoder *jsontext.Decoder, info *corev1.NodeSystemInfo) error {
	return members(decoder, func(name string) (more bool, err error) {
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

// textOf is where a text of nodeInfo is stored; nil: it is not needed.
func textOf(info *corev1.NodeSystemInfo, name string) *string {
	switch name {
	case "machineID":
		return &info.MachineID
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
	err := members(decoder, func(name string) (more bool, err error) {
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
func members(decoder *jsontext.Decoder, read func(name string) (more bool, err error)) error {
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
		if more, err := read(name.String()); err != nil || !more {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}
