package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// forwarding is the setting by which the machine passes on what a pod sends to a pod on another bridge. It is the network namespace's own.
const forwarding = "/proc/sys/net/ipv4/ip_forward"

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
	for _, address := range further {
		if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("give machine address %s: %w", address, err)
		}
	}
	return nil
}

// network is a bridge with the machine's own address on it, and an address for each pod.
type network struct {
	prefix netip.Prefix // the machine's address and the range
	bridge netlink.Link

	mu    sync.Mutex
	taken map[netip.Addr]bool
	last  netip.Addr // so that an address is not given again soon: a client may still call the pod that had it
}

// newNetwork makes the bridge with the machine's address.
func newNetwork(name string, prefix netip.Prefix) (*network, error) {
	if err := removeOld(name, prefix.Addr()); err != nil {
		return nil, err
	}
	// The bridge has a hardware address of its own, locally administered. Without one it takes the lowest of its devices'. Then each pod that starts
	// or ends would cut off the others until their address caches have noticed.
	hardware := append(net.HardwareAddr{0x02, 0}, prefix.Addr().AsSlice()...)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: hardware}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("add bridge: %w", err)
	}
	if err := netlink.AddrAdd(bridge, &netlink.Addr{IPNet: ipNet(prefix)}); err != nil {
		return nil, fmt.Errorf("give bridge address %s: %w", prefix, err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bring up bridge: %w", err)
	}
	return &network{prefix: prefix, bridge: bridge, taken: map[netip.Addr]bool{prefix.Addr(): true}, last: prefix.Addr()}, nil
}

// removeOld removes the bridges of that name or address, of runtimes that ran here before. With two of an address, answers to pods would go
// to the older one.
func removeOld(name string, address netip.Addr) error {
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list addresses of machine: %w", err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list devices of machine: %w", err)
	}
	for _, link := range links {
		has := slices.ContainsFunc(addresses, func(a netlink.Addr) bool {
			return a.LinkIndex == link.Attrs().Index && a.IP.Equal(address.AsSlice())
		})
		if link.Attrs().Name != name && !has {
			continue
		}
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("remove old bridge %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// join connects the network namespace of a process with the bridge and gives it an address. What it sends to lost is lost.
func (n *network) join(pid int, lost []netip.Prefix) (address netip.Addr, err error) {
	if address, err = n.take(); err != nil {
		return netip.Addr{}, err
	}
	defer func() {
		if err != nil {
			n.free(address)
		}
	}()
	const inside = "eth0"
	outside := fmt.Sprintf("pod%d", pid)
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: outside, MasterIndex: n.bridge.Attrs().Index}, PeerName: inside, PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(pair); err != nil {
		return netip.Addr{}, fmt.Errorf("add devices of pod: %w", err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return netip.Addr{}, fmt.Errorf("bring up device of pod: %w", err)
	}
	namespace, err := netns.GetFromPid(pid)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("open network namespace of pod: %w", err)
	}
	defer namespace.Close()
	there, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("open network of pod: %w", err)
	}
	defer there.Close()
	eth, err := n.furnish(there, inside, address)
	if err != nil {
		return netip.Addr{}, err
	}
	return address, lose(there, eth, lost)
}

// furnish arranges the network inside of a pod, and returns its device.
func (n *network) furnish(there *netlink.Handle, device string, address netip.Addr) (netlink.Link, error) {
	lo, loErr := there.LinkByName("lo")
	eth, ethErr := there.LinkByName(device)
	if err := errors.Join(loErr, ethErr); err != nil {
		return nil, fmt.Errorf("find devices in pod: %w", err)
	}
	if err := there.AddrAdd(eth, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(address, n.prefix.Bits()))}); err != nil {
		return nil, fmt.Errorf("give pod its address: %w", err)
	}
	for _, link := range []netlink.Link{lo, eth} {
		if err := there.LinkSetUp(link); err != nil {
			return nil, fmt.Errorf("bring up device %s in pod: %w", link.Attrs().Name, err)
		}
	}
	if err := there.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: n.prefix.Addr().AsSlice()}); err != nil {
		return nil, fmt.Errorf("add default route of pod: %w", err)
	}
	return eth, nil
}

// nowhere is the hardware address of nobody. The bridge passes on what is sent there, and no device takes it.
var nowhere = net.HardwareAddr{0x02, 0xff, 0xff, 0xff, 0xff, 0xff}

// lose makes a pod send packets for some addresses to nowhere. So its connections get no answer, not even an error.
func lose(there *netlink.Handle, eth netlink.Link, lost []netip.Prefix) error {
	if len(lost) == 0 {
		return nil
	}
	const gateway = "169.254.0.1" // of no network here
	via := net.ParseIP(gateway)
	if err := there.NeighSet(&netlink.Neigh{LinkIndex: eth.Attrs().Index, IP: via, HardwareAddr: nowhere, State: netlink.NUD_PERMANENT}); err != nil {
		return fmt.Errorf("add a gateway to nowhere to pod: %w", err)
	}
	for _, prefix := range lost {
		route := &netlink.Route{LinkIndex: eth.Attrs().Index, Dst: ipNet(prefix.Masked()), Gw: via, Flags: int(netlink.FLAG_ONLINK)}
		if err := there.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s to nowhere in pod: %w", prefix, err)
		}
	}
	return nil
}

func (n *network) take() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := func(a netip.Addr) netip.Addr {
		if a = a.Next(); n.prefix.Contains(a) && n.prefix.Contains(a.Next()) { // the last one is for broadcasts
			return a
		}
		return n.prefix.Masked().Addr().Next()
	}
	for address := next(n.last); address != n.last; address = next(address) {
		if !n.taken[address] {
			n.taken[address], n.last = true, address
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("find an address for a pod: all of %s are taken", n.prefix.Masked())
}

// free gives an address back. The devices go with the namespace.
func (n *network) free(address netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, address)
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
