package inventory

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// ownerOf returns the nodekeep command of the process that has the other end of a local TCP connection: capture or webhook. It is empty where that
// process has closed the connection.
func ownerOf(connection net.Conn) string {
	local, ok := connection.LocalAddr().(*net.TCPAddr)
	present, isTCP := connection.RemoteAddr().(*net.TCPAddr)
	if !ok || !isTCP {
		return ""
	}
	sockets, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(sockets), "\n") {
		cells := strings.Fields(line) // number, local address, remote address, state, queues, timer, retransmits, user, timeout, inode
		if len(cells) < 10 || !strings.HasSuffix(cells[1], fmt.Sprintf(":%04X", present.Port)) || !strings.HasSuffix(cells[2], fmt.Sprintf(":%04X", local.Port)) {
			continue
		}
		return commandWith("socket:[" + cells[9] + "]")
	}
	return ""
}

// commandWith returns the first argument of the process that has a socket open.
func commandWith(socket string) string {
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err != nil || target != socket {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(file)), "cmdline"))
		if args := strings.Split(string(line), "\x00"); err == nil && len(args) > 1 {
			return args[1]
		}
	}
	return ""
}
