package daemon

import "spillway/xdp"

// Detach takes the data plane that is pinned in a directory off its interfaces, and its pins away. It refuses while a daemon runs on it.
func Detach(pin string) error { return explain(xdp.Detach(pin)) }
