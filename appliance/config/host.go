package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"spillway/wire"
)

// headers is how much of the MTU is not elements: IPv4, UDP, and Spillway's own.
const headers = 20 + 8 + wire.HeaderSize

// CheckHost says all that this machine, and this user on it, lacks for the configuration, in an Error as Parse's. It changes nothing.
func (c *Config) CheckHost() error {
	f := &findings{source: c.source}
	if f.source == nil {
		f.source = &source{}
	}
	c.checkInterfaces(f)
	checkPin(f, c.Aggregator.Pin)
	if t := c.API.TLS; t != nil {
		checkTLS(f, "api.tls", t)
	}
	if c.Switch != nil && c.Switch.TLS != nil {
		checkTLS(f, "switch.tls", c.Switch.TLS)
	}
	c.checkCluster(f)
	checkDirectory(f, "state", filepath.Dir(c.State))
	checkDirectory(f, "api.socket", filepath.Dir(c.API.Socket))
	if c.API.Group != "" {
		if _, err := user.LookupGroup(c.API.Group); err != nil {
			f.wrong("api.group", "make it (groupadd --system "+c.API.Group+"), or write one that is there", "there is no group %s", c.API.Group)
		}
	}
	return f.err()
}

func (c *Config) checkInterfaces(f *findings) {
	there, err := net.Interfaces()
	if err != nil {
		f.wrong("interfaces", "look at ip link", "they cannot be listed: %v", err)
		return
	}
	least := headers + 4*max(c.Jobs.Elements, wire.MinElements)
	for i, want := range c.Interfaces {
		path := fmt.Sprintf("interfaces[%d]", i)
		var found *net.Interface
		var names []string
		for j := range there {
			if there[j].Flags&net.FlagLoopback == 0 {
				names = append(names, there[j].Name)
			}
			if there[j].Name == want.Name {
				found = &there[j]
			}
		}
		if found == nil {
			instead := "this host has none but lo"
			if len(names) > 0 {
				instead = "write one that this host has: " + listed(names, "or")
			}
			f.wrong(path+".name", instead, "there is no interface %s", want.Name)
			continue
		}
		if found.Flags&net.FlagUp == 0 {
			f.wrong(path+".name", "take it up: ip link set "+want.Name+" up", "%s is down", want.Name)
		}
		if found.MTU < least {
			f.wrong(path+".name", fmt.Sprintf("give the interface an MTU of %d, or write a smaller jobs.elements", least), "%s has an MTU of %d, and chunks of %d elements (jobs.elements) need %d",
				want.Name, found.MTU, max(c.Jobs.Elements, wire.MinElements), least)
		}
		checkAddress(f, path+".address", found, want.Address)
	}
}

func checkAddress(f *findings, path string, on *net.Interface, want netip.Addr) {
	addresses, err := on.Addrs()
	if err != nil {
		f.wrong(path, "look at ip address show "+on.Name, "the addresses of %s cannot be listed: %v", on.Name, err)
		return
	}
	var have []string
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			if prefix.Addr() == want {
				return
			}
			have = append(have, prefix.Addr().String())
		}
	}
	instead := "it has no IPv4 address: ip address add " + want.String() + "/24 dev " + on.Name
	if len(have) > 0 {
		instead = "write one that it has: " + listed(have, "or")
	}
	f.wrong(path, instead, "%s does not have the address %s", on.Name, want)
}

// checkPin looks at the directory for pins, or at the one that it can be made in.
func checkPin(f *findings, pin string) {
	dir, err := existing(pin)
	if err != nil {
		f.wrong("aggregator.pin", "let user "+userName()+" reach it: the package's tmpfiles.d does so for /sys/fs/bpf/spillway (systemd-tmpfiles --create)", "%v", err)
		return
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		f.wrong("aggregator.pin", "let user "+userName()+" reach it", "%s: %v", dir, err)
		return
	}
	if uint32(stat.Type) != unix.BPF_FS_MAGIC {
		f.wrong("aggregator.pin", "write a directory of a bpffs, such as /sys/fs/bpf/spillway (mount -t bpf bpf /sys/fs/bpf, where systemd has not)", "%s is not on a bpffs", pin)
		return
	}
	if err := writable(dir); err != nil {
		f.wrong("aggregator.pin", "make it for user "+userName()+": the package's tmpfiles.d does so for /sys/fs/bpf/spillway (systemd-tmpfiles --create)", "%v", err)
	}
}

func checkTLS(f *findings, path string, t *TLS) {
	if t.Certificate != "" {
		certificate := checkFile(f, path+".certificate", t.Certificate)
		key := checkFile(f, path+".key", t.Key)
		if info, err := os.Stat(t.Key); err == nil && info.Mode().Perm()&0o007 != 0 {
			f.wrong(path+".key", "chmod o= "+t.Key, "everybody can read or write %s (mode %04o)", t.Key, info.Mode().Perm())
		}
		if certificate != nil && key != nil {
			if _, err := tls.X509KeyPair(certificate, key); err != nil {
				f.wrong(path+".certificate", "write a PEM certificate and its own key", "%s and %s do not go together: %v", t.Certificate, t.Key, err)
			}
		}
	}
	if ca := checkFile(f, path+".ca", t.CA); ca != nil && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		f.wrong(path+".ca", "write a file of PEM certificates", "there is no certificate in %s", t.CA)
	}
}

// checkFile returns what is in a file, or nil.
func checkFile(f *findings, key, path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		instead := "let user " + userName() + " read it"
		if errors.Is(err, fs.ErrNotExist) {
			instead = "write the path of a file that is there (spillctl certs makes some for a lab)"
		}
		f.wrong(key, instead, "%v", err)
	}
	return text
}

// checkDirectory looks at a directory that the daemon writes in, or makes.
func checkDirectory(f *findings, key, dir string) {
	there, err := existing(dir)
	if err == nil {
		err = writable(there)
	}
	if err != nil {
		f.wrong(key, "make "+dir+" for user "+userName()+": the package's unit does so for /var/lib/spillway and /run/spillway", "%v", err)
	}
}

// existing is the path, or the nearest directory above it that is there.
func existing(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is not a directory", path)
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		path = filepath.Dir(path)
	}
}

// writable asks with the rights that the process has now.
func writable(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%s cannot be written in by user %s: %w", dir, userName(), err)
	}
	return nil
}

// userName is whom the process runs as.
func userName() string {
	if u, err := user.Current(); err == nil && !strings.ContainsAny(u.Username, " \n") {
		return u.Username
	}
	return fmt.Sprint(os.Geteuid())
}
