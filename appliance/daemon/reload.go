package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/config"
	"spillway/appliance/fabric"
)

// followReloads reads the configuration again each time it is told to, until ctx ends.
func (d *daemon) followReloads(ctx context.Context, reload <-chan struct{}) error {
	for {
		select {
		case <-reload:
			d.notify.reloading()
			d.reload()
			d.notify.ready()
		case <-ctx.Done():
			return nil
		}
	}
}

// reload puts in force what can change while the daemon runs. A configuration with an error changes nothing.
func (d *daemon) reload() {
	fresh, err := config.Load(d.options.Path)
	if err == nil {
		err = d.apply(fresh)
	}
	if err != nil {
		d.warnings.set("reload", "the configuration was not reloaded: %v", err)
		d.log.Error("the configuration was not reloaded: the one before stays in force", "path", d.options.Path, "error", err)
		d.events.Add(v1.EventLevel_EVENT_LEVEL_ERROR, "reload-failed", "", nil, "the configuration was not reloaded: %v", err)
		return
	}
	d.warnings.clear("reload")
	d.log.Info("the configuration was reloaded", "path", d.options.Path)
	d.events.Add(v1.EventLevel_EVENT_LEVEL_INFO, "reloaded", "", nil, "the configuration and the certificates were reloaded")
}

// apply puts the parts of a configuration in force that can change, all or none of them, and says which of the others differ.
func (d *daemon) apply(fresh *config.Config) (err error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	var level slog.Level
	if err := level.UnmarshalText([]byte(fresh.Log.Level)); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	var undo []func() error
	defer func() {
		if err != nil {
			for _, f := range undo {
				err = errors.Join(err, f())
			}
		}
	}()
	if r := d.seat.now.Load(); r != nil {
		if err := r.jobs.Reconfigure(defaults(fresh), quota(fresh)); err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		undo = append(undo, func() error { return r.jobs.Reconfigure(defaults(d.config), quota(d.config)) })
		if r.fabric != nil && fresh.Switch != nil {
			if err := d.applyHosts(r.fabric, fresh); err != nil {
				return fmt.Errorf("switch.hosts: %w", err)
			}
			undo = append(undo, func() error { return d.applyHosts(r.fabric, d.config) })
		}
	}
	if d.identity != nil {
		if err := d.identity.Reload(); err != nil {
			return fmt.Errorf("cluster.tls: %w", err)
		}
	}
	if err := d.server.Reload(); err != nil { // last, because it cannot be undone
		return err
	}
	if d.config.Switch != nil && fresh.Switch != nil {
		d.config.Switch.Hosts = fresh.Switch.Hosts
	}
	d.level.Set(level)
	d.config.Log.Level = fresh.Log.Level
	inForce := fresh.Jobs
	inForce.Groups, inForce.WorkerPorts = d.config.Jobs.Groups, d.config.Jobs.WorkerPorts // which the account of what jobs hold is made for
	d.config.Jobs = inForce
	if keys := differing("", reflect.ValueOf(*d.config), reflect.ValueOf(*fresh)); len(keys) > 0 {
		list := strings.Join(keys, ", ")
		d.warnings.set("restart", "the configuration file differs from what is in force in %s: restart the daemon", list)
		d.log.Warn("these keys changed and take a restart: the data plane stays meanwhile", "keys", list)
	} else {
		d.warnings.clear("restart")
	}
	return nil
}

// applyHosts wants the hosts of a configuration in the ToR.
func (d *daemon) applyHosts(to *fabric.Fabric, c *config.Config) error {
	wanted, tor := *d.config, *d.config.Switch
	tor.Hosts = c.Switch.Hosts
	wanted.Switch = &tor
	list, err := hosts(&wanted, d.interfaces.list())
	if err != nil {
		return err
	}
	return to.SetHosts(list)
}

// differing names the keys whose values differ, by the sections of the file.
func differing(path string, a, b reflect.Value) []string {
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return nil
	}
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		return differing(path, a.Elem(), b.Elem())
	}
	if a.Kind() != reflect.Struct {
		return []string{path}
	}
	var keys []string
	section := false
	for i := range a.NumField() {
		key, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "" {
			continue // not in the file: where a value stands there, for example
		}
		section = true
		keys = append(keys, differing(strings.TrimPrefix(path+"."+key, "."), a.Field(i), b.Field(i))...)
	}
	if !section { // a value that is made of parts, such as an address
		return []string{path}
	}
	return keys
}
