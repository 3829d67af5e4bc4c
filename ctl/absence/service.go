package absence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	v1 "spillway/appliance/api/spillway/v1"
)

// unit is the daemon's in the package.
const unit = "spillwayd.service"

// busPatience bounds how long the service manager has to answer.
const busPatience = 3 * time.Second

// service says what the service manager makes of the daemon; without one, whether there is a process.
func service(ctx context.Context, unit string) *v1.Finding {
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	properties, err := properties(ctx, unit)
	if err != nil {
		return process(fmt.Sprintf("the service manager cannot be asked (%v)", err))
	}
	return judge(unit, properties)
}

// judge says what the unit's properties mean.
func judge(unit string, properties map[string]any) *v1.Finding {
	const check = "service"
	text := func(name string) string { return fmt.Sprint(properties[name]) }
	state := fmt.Sprintf("%s (%s)", text("ActiveState"), text("SubState"))
	switch {
	case text("LoadState") == "not-found":
		return process("there is no unit " + unit)
	case text("ActiveState") == "failed", text("SubState") == "auto-restart":
		return fail(check, fmt.Sprintf("%s is %s: %s, exit status %s", unit, state, text("Result"), text("ExecMainStatus")),
			"'journalctl -u spillwayd -n 50' says why; when that is put right, 'systemctl restart spillwayd'")
	case text("ActiveState") == "inactive":
		remedy := "'systemctl start spillwayd'"
		if text("UnitFileState") == "disabled" {
			remedy = "'systemctl enable --now spillwayd'"
		}
		return fail(check, fmt.Sprintf("%s is %s: it was stopped, or never started", unit, state), remedy)
	case text("ActiveState") == "active":
		return fine(check, fmt.Sprintf("%s is %s: %s", unit, state, text("StatusText")))
	default:
		return warn(check, fmt.Sprintf("%s is %s: %s", unit, state, text("StatusText")), "wait, and ask again; 'journalctl -u spillwayd -f' shows what it does")
	}
}

func properties(ctx context.Context, unit string) (map[string]any, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil, fmt.Errorf("systemd does not run here")
	}
	bus, err := dbus.NewWithContext(ctx)
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	all, err := bus.GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return nil, err
	}
	service, err := bus.GetUnitTypePropertiesContext(ctx, unit, "Service")
	if err != nil {
		return nil, err
	}
	for name, value := range service {
		all[name] = value
	}
	return all, nil
}

// process looks for the daemon among all processes of this network namespace, where no service manager says anything of it.
func process(why string) *v1.Finding {
	const check = "service"
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return warn(check, err.Error(), "")
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err == nil && strings.TrimSpace(string(comm)) == "spillwayd" && here(filepath.Dir(name)) {
			return fine(check, fmt.Sprintf("%s; process %s is a spillwayd", why, filepath.Base(filepath.Dir(name))))
		}
	}
	return fail(check, why+", and no process is a spillwayd", "start it: 'systemctl start spillwayd', or 'spillwayd run' where there is no systemd")
}

// here says whether a process is in this network namespace: one in a container is another appliance. Of other users' processes one may not know; they
// are taken for it.
func here(process string) bool {
	theirs, err := os.Readlink(filepath.Join(process, "ns/net"))
	if err != nil {
		return true
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	return err != nil || theirs == ours
}
