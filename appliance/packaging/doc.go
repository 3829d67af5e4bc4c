// Package packaging is what the Debian package is made of.
package packaging

import (
	_ "github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
)
