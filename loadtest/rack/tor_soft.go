package rack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"spillway/p4/softtor"
)

// torReady is what the software ToR's process says when it listens.
type torReady struct {
	Listen string `json:"listen"`
}

// launchSoft starts the software ToR and waits until it listens.
func (t *tor) launchSoft(ctx context.Context, ports []torPort) (*Process, error) {
	p, err := startProcess(t.namespace, t.config.Command)
	if err != nil {
		return nil, err
	}
	config := softtor.Config{
		Listen:   torListen,
		Anybody:  true, // who is on the management link
		DeviceID: torDevice,
		// A data plane of no slots there is none. Those that no job has a region of are not used.
		Slots:    uint32(max(t.config.Slots, 1)),
		Elements: t.elements,
	}
	for _, port := range ports {
		config.Ports = append(config.Ports, softtor.Port{Port: port.Number, Interface: port.Interface})
	}
	var ready torReady
	if err := errors.Join(p.Send(config), p.Receive(ctx, &ready)); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// RunTor is the process of a rack's software ToR: it reads a softtor.Config as a line of JSON, says another when it
// listens, and ends when its input does. Messages that matter go to stderr.
func RunTor(ctx context.Context, in io.Reader, out io.Writer) error {
	var config softtor.Config
	orders := json.NewDecoder(in)
	if err := orders.Decode(&config); err != nil {
		return fmt.Errorf("read the configuration from stdin: %w (this command is for a rack to start)", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with stdin, or with the process
		defer cancel()
		var more json.RawMessage
		for orders.Decode(&more) == nil {
		}
	}()
	var saying error
	config.Ready = func(at net.Addr) {
		if saying = json.NewEncoder(out).Encode(torReady{at.String()}); saying != nil {
			cancel()
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	err := softtor.Run(ctx, config, log)
	return errors.Join(err, saying)
}
