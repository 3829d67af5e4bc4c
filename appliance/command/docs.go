package command

import (
	"fmt"
	"io"
)

// ManPage is spillwayd(8), in roff.
func ManPage() (string, error) {
	page, err := newApp(streams{out: io.Discard, err: io.Discard}).ToManWithSection(8)
	if err != nil {
		return "", fmt.Errorf("make the man page: %w", err)
	}
	return page, nil
}
