package acceptance

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	spillwayd "spillway/appliance/command"
	"spillway/ctl/command"
)

// TestMain makes this test program whatever a test starts it as.
func TestMain(m *testing.M) {
	if as := os.Getenv(role); as != "" {
		os.Exit(be(as))
	}
	testscript.Main(m, map[string]func(){"spillctl": func() { os.Exit(command.Main()) }})
}

func be(as string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch as {
	case "spillctl":
		return command.Main()
	case "spillwayd":
		stop() // it handles signals itself
		return spillwayd.Main(context.Background(), append([]string{"spillwayd"}, os.Args[1:]...), os.Stdout, os.Stderr)
	case "worker":
		return beWorker(ctx, os.Args[1:])
	case "impostor":
		return beImpostor(ctx, os.Args[1:])
	case "tor":
		return beTor(ctx, os.Args[1])
	case "controller":
		return beController(ctx, os.Args[1:])
	}
	return 2
}
