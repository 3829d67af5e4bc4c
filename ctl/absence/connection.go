package absence

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
)

// socket says why a Unix socket does not answer.
func socket(path string, cause error, read *config.Config) *v1.Finding {
	const check = "socket"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fail(check, fmt.Sprintf("%s may not look for the socket %s: %v", whoAmI(), path, err),
			"ask as a member of the socket's group (api.group of the configuration), or with sudo")
	case errors.Is(err, fs.ErrNotExist) && read != nil && read.API.Socket != path:
		return fail(check, fmt.Sprintf("there is no socket %s; the configuration has api.socket: %s", path, read.API.Socket),
			fmt.Sprintf("use --addr unix://%s (or set SPILLCTL_ADDR)", read.API.Socket))
	case errors.Is(err, fs.ErrNotExist):
		return fail(check, fmt.Sprintf("there is no socket %s: the daemon does not run", path),
			"'systemctl start spillwayd'; if it listens elsewhere, say so with --addr")
	case err != nil:
		return fail(check, fmt.Sprintf("the socket %s: %v", path, err), "")
	case info.Mode().Type() != fs.ModeSocket:
		return fail(check, fmt.Sprintf("%s is no socket", path), "give the daemon's socket with --addr (api.socket of its configuration)")
	case errors.Is(cause, syscall.EACCES) || errors.Is(cause, syscall.EPERM):
		group, mode := groupOf(info), info.Mode().Perm()
		return fail(check, fmt.Sprintf("%s may not use the socket %s: it is for its owner and the group %s (mode %04o)", whoAmI(), path, group, mode),
			fmt.Sprintf("'sudo usermod -aG %s %s' and log in again; or ask with sudo", group, userName()))
	case errors.Is(cause, syscall.ECONNREFUSED):
		return fail(check, fmt.Sprintf("nobody listens on the socket %s: the daemon ended without taking it away", path),
			"'systemctl start spillwayd'; 'journalctl -u spillwayd' says why it ended")
	case errors.Is(cause, context.DeadlineExceeded):
		return fail(check, fmt.Sprintf("somebody listens on the socket %s and does not answer in time", path),
			"'systemctl restart spillwayd': the data plane stays and goes on summing. If it hangs again, report what 'journalctl -u spillwayd' has "+
				"after 'systemctl kill -s QUIT spillwayd'")
	default:
		return fail(check, fmt.Sprintf("the socket %s is there, and its daemon does not answer: %v", path, cause),
			"'journalctl -u spillwayd' says what it does")
	}
}

func whoAmI() string { return "user " + userName() }

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

func groupOf(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "unknown"
	}
	id := strconv.Itoa(int(stat.Gid))
	if group, err := user.LookupGroupId(id); err == nil {
		return group.Name
	}
	return id
}

// connection says why an appliance on another host does not answer.
func connection(address string, cause error) *v1.Finding {
	const check = "connection"
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(cause, &dns):
		return fail(check, fmt.Sprintf("the host of %s is not known: %v", address, cause), "correct --addr, or give an address instead of a name")
	case errors.Is(cause, syscall.ECONNREFUSED):
		return fail(check, fmt.Sprintf("nobody listens at %s", address),
			"see on that host whether the daemon runs ('spillctl doctor' there), and whether api.listen of its configuration is this address")
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, syscall.EHOSTUNREACH), errors.Is(cause, syscall.ENETUNREACH), errors.Is(cause,
		syscall.ETIMEDOUT):
		return fail(check, fmt.Sprintf("%s does not answer: %v", address, cause),
			"see whether the host is up and routed to, and whether a firewall lets this TCP port through")
	case errors.As(cause, &certificate), strings.Contains(cause.Error(), "x509:"), strings.Contains(cause.Error(), "tls:"):
		return fail(check, fmt.Sprintf("%s and this operator do not accept each other's certificates: %v", address, cause),
			"give the authority that signed the appliance's certificate with --ca, and an operator's certificate of the authority in its "+
				"api.tls.ca with --cert and --key; "+
				"the appliance's must name the host in --addr, and neither may be over ('openssl x509 -noout -text -in FILE')")
	default:
		return fail(check, fmt.Sprintf("%s does not answer: %v", address, cause), "see on that host whether the daemon runs: 'spillctl doctor' there")
	}
}
