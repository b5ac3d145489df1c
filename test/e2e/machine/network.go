package main

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// forwarding is the setting by which the machine passes on what one pod sends to another. It is the network namespace's own.
const forwarding = "/proc/sys/net/ipv4/ip_forward"

// The rules of routing, the first of which counts: what is lost, then the machine's own addresses. The kernel has these first.
const (
	lostPriority = 100
	ownPriority  = 200
)

// networkUp brings up the loopback device, which is down in a new network namespace, and gives it further addresses. The kernel takes each
// address of a range on that device for the machine's own.
func networkUp(further []netip.Prefix) error {
	if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil {
		return fmt.Errorf("forward between pods: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback device: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up loopback device: %w", err)
	}
	for _, prefix := range further {
		if err := addAddress(prefix); err != nil {
			return err
		}
	}
	current := netlink.NewRule()
	current.Family, current.Table, current.Priority = netlink.FAMILY_V4, unix.RT_TABLE_LOCAL, ownPriority
	if err := netlink.RuleAdd(current); err != nil {
		return fmt.Errorf("add rule for the machine's addresses: %w", err)
	}
	current.Priority = 0
	if err := netlink.RuleDel(current); err != nil {
		return fmt.Errorf("remove the first rule for the machine's addresses: %w", err)
	}
	return nil
}

// addAddress gives the machine an address, or a range of them, which it may have already.
func addAddress(prefix netip.Prefix) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback device: %w", err)
	}
	if err := netlink.AddrReplace(lo, &netlink.Addr{IPNet: ipNet(prefix)}); err != nil {
		return fmt.Errorf("give machine address %s: %w", prefix, err)
	}
	return nil
}

// lose drops what the pods of a kubelet send to the ranges of addresses that are named, and nothing else. They get no answer, not even an error.
func lose(args []string) error {
	flags := flag.NewFlagSet(loseName, flag.ExitOnError)
	text := flags.String("network", "", "as that of runtime")
	if err := flags.Parse(args); err != nil {
		return err
	}
	network, err := netip.ParsePrefix(*text)
	if err != nil {
		return fmt.Errorf("read --network: %w", err)
	}
	pods := ipNet(podRange(network))
	rules, err := netlink.RuleListFiltered(netlink.FAMILY_V4, &netlink.Rule{Src: pods}, netlink.RT_FILTER_SRC)
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, rule := range rules {
		if err := netlink.RuleDel(&rule); err != nil {
			return fmt.Errorf("remove rule %s: %w", rule, err)
		}
	}
	for _, arg := range flags.Args() {
		lost, err := netip.ParsePrefix(arg)
		if err != nil {
			return fmt.Errorf("read range: %w", err)
		}
		rule := netlink.NewRule()
		rule.Family, rule.Priority, rule.Type, rule.Src, rule.Dst = netlink.FAMILY_V4, lostPriority, unix.RTN_BLACKHOLE, pods, ipNet(lost.Masked())
		if err := netlink.RuleAdd(rule); err != nil {
			return fmt.Errorf("add rule %s: %w", rule, err)
		}
	}
	return nil
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
