package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// inRange notes a number that is out of its range.
func inRange[N cmp.Ordered](f *findings, path string, n, least, most N) {
	if n < least || n > most {
		f.wrong(path, fmt.Sprintf("write %v to %v", least, most), "%v is out of range", n)
	}
}

// power notes a number that is not a power of two.
func (f *findings) power(path string, n uint32) {
	if n == 0 || n&(n-1) == 0 {
		return
	}
	below := uint32(1)
	for below<<1 < n {
		below <<= 1
	}
	f.wrong(path, fmt.Sprintf("write %d or %d", below, below<<1), "%d is not a power of two", n)
}

// duration notes one that is out of its range.
func (f *findings) duration(path string, d, least, most time.Duration) {
	if d < least || d > most {
		f.wrong(path, fmt.Sprintf("write %s to %s", least, most), "%s is out of range", d)
	}
}

// choice notes a word that is none of the choices.
func (f *findings) choice(path, value string, choices ...string) {
	if slices.Contains(choices, value) {
		return
	}
	wrong := fmt.Sprintf("%q is none of the choices", value)
	if value == "" {
		wrong = "is missing"
	}
	instead := "write " + listed(choices, "or")
	if near := nearest(value, choices); near != "" {
		instead = "write " + near + " (the choices are " + listed(choices, "and") + ")"
	}
	f.wrong(path, instead, "%s", wrong)
}

// path notes one that is not absolute, or is a detour: the unit, tmpfiles.d and the daemon must mean the same file.
func (f *findings) path(key, path, example string) {
	switch {
	case path == "":
		f.wrong(key, "write a path, such as "+example, "is missing")
	case strings.ContainsRune(path, 0):
		f.wrong(key, "write a path, such as "+example, "%q is not a path", path)
	case !filepath.IsAbs(path):
		f.wrong(key, "write it from / on, such as "+example, "%q is relative, and it is not said to what", path)
	case filepath.Clean(path) != path:
		f.wrong(key, "write "+filepath.Clean(path), "%q is a detour", path)
	}
}

// listen notes what is no address to listen on. Nothing is "nowhere".
func (f *findings) listen(path, value, example string) {
	if value == "" {
		return
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		f.wrong(path, "write ADDRESS:PORT, such as "+example, "%q is not an address and a port", value)
		return
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		f.wrong(path, "write an address of this host in numbers, such as "+example, "%q is not an address", host)
	}
	if !isPort(port) {
		f.wrong(path, "write a port from 0 (a free one) to 65535, such as "+example, "%q is not a port", port)
	}
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// unicast notes what is not the IPv4 address of a host.
func (f *findings) unicast(path string, a netip.Addr, instead string) {
	switch {
	case !a.IsValid():
		f.wrong(path, "write "+instead, "is missing")
	case !a.Is4():
		f.wrong(path, "write "+instead, "%s is not an IPv4 address", a)
	case a.IsMulticast() || a.IsUnspecified() || a.As4() == [4]byte{255, 255, 255, 255}:
		f.wrong(path, "write "+instead, "%s is not the address of a host", a)
	}
}

// tls notes files that are not named. A server needs all three; a client may do without a certificate of its own.
func (f *findings) tls(path string, t *TLS, server bool) {
	if t == nil {
		return
	}
	f.path(path+".ca", t.CA, "/etc/spillway/tls/ca.crt")
	if server || t.Certificate != "" || t.Key != "" {
		f.path(path+".certificate", t.Certificate, "/etc/spillway/tls/server.crt")
		f.path(path+".key", t.Key, "/etc/spillway/tls/server.key")
	}
}

// classElements is the size class of chunks of so many elements, in elements.
func classElements(elements int) int {
	class := 0
	for _, key := range keysOf(reflect.TypeFor[Slots]()) {
		if class, _ = strconv.Atoi(key); class >= elements {
			break
		}
	}
	return class
}
