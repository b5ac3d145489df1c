package webhook

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/classify"
)

// partialStatus is the part of a Node's status that is decoded.
type partialStatus struct {
	capacity, allocatable corev1.ResourceList // of resources that rules use
	info                  corev1.NodeSystemInfo
}

// readStatus reads what machines and rules use. A value of another type than the API's is not known. The API server writes images, most
// of a Node, after that. If the status is the last part that is needed, images are not read.
func readStatus(decoder *jsontext.Decoder, rules classify.Rules, last bool) (status partialStatus, err error) {
	if decoder.PeekKind() != '{' {
		return status, decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return status, err
	}
	capacity, allocatable := rules.Resources()
	for left := 3; decoder.PeekKind() != '}'; {
		if left == 0 && last {
			return status, nil
		}
		name, err := decoder.ReadToken()
		if err != nil {
			return status, err
		}
		left--
		switch name.String() {
		case "capacity":
			status.capacity, err = readResources(decoder, capacity)
		case "allocatable":
			status.allocatable, err = readResources(decoder, allocatable)
		case "nodeInfo":
			status.info, err = readInfo(decoder)
		default:
			left++
			err = decoder.SkipValue()
		}
		if err != nil {
			return status, err
		}
	}
	_, err = decoder.ReadToken()
	return status, err
}

// readInfo reads the texts of nodeInfo that machines and rules use.
func readInfo(decoder *jsontext.Decoder) (info corev1.NodeSystemInfo, err error) {
	if decoder.PeekKind() != '{' {
		return info, decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return info, err
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return info, err
		}
		text := textOf(&info, name.String())
		if text == nil || decoder.PeekKind() != '"' {
			if err := decoder.SkipValue(); err != nil {
				return info, err
			}
			continue
		}
		value, err := decoder.ReadToken()
		if err != nil {
			return info, err
		}
		*text = value.String()
	}
	_, err = decoder.ReadToken()
	return info, err
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
	if len(used) == 0 || decoder.PeekKind() != '{' {
		return nil, decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	list := corev1.ResourceList{}
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if kind := decoder.PeekKind(); !used[name] || kind == '{' || kind == '[' {
			if err := decoder.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		value, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		if amount, err := resource.ParseQuantity(strings.TrimSpace(value.String())); err == nil {
			list[corev1.ResourceName(name)] = amount
		}
	}
	_, err := decoder.ReadToken()
	return list, err
}
