package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// explain adds what to do where the kernel only says no.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: run spillwayd as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON and a bpffs that it may write to", err)
	}
	return err
}
