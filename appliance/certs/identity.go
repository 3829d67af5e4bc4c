package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// scheme is that of the URI names that say what the holder of a certificate may do.
const scheme = "spillway"

// AnyJob in place of a job's name stands for all jobs.
const AnyJob = "*"

// jobName is what a job may be called: a label of a host name, as in the API.
var jobName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// IsJobName says whether a job may be called so.
func IsJobName(name string) bool { return jobName.MatchString(name) }

// nodeName is what an appliance may be called, as in the configuration.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

// IsNodeName says whether an appliance may be called so.
func IsNodeName(name string) bool { return nodeName.MatchString(name) }

// Identity is what a certificate says that its holder may do. The zero Identity may do nothing.
type Identity struct {
	// Operator may do everything.
	Operator bool
	// Jobs are the names of those that the holder may take part in, sorted; AnyJob among them: in all.
	Jobs []string
	// Node is the name of the appliance of a cluster that the holder is; empty: none. The others of the cluster take its orders when it leads them.
	Node string
}

// IdentityOf reads the URI names of a certificate. Names of other schemes are somebody else's; one of ours that says nothing known is an
// error, because a certificate that was issued with a mistake should not half work.
func IdentityOf(certificate *x509.Certificate) (Identity, error) {
	var identity Identity
	for _, uri := range certificate.URIs {
		if uri.Scheme != scheme {
			continue
		}
		name := strings.TrimPrefix(uri.Path, "/")
		switch {
		case uri.User != nil || uri.RawQuery != "" || uri.ForceQuery || uri.Fragment != "" || uri.Opaque != "":
			return Identity{}, unknownName(uri)
		case uri.Host == "operator" && uri.Path == "":
			identity.Operator = true
		case uri.Host == "node" && uri.Path == "/"+name && IsNodeName(name) && (identity.Node == "" || identity.Node == name):
			identity.Node = name
		case uri.Host == "job" && uri.Path == "/"+name && (name == AnyJob || IsJobName(name)):
			identity.Jobs = append(identity.Jobs, name)
		default:
			return Identity{}, unknownName(uri)
		}
	}
	slices.Sort(identity.Jobs)
	identity.Jobs = slices.Compact(identity.Jobs)
	return identity, nil
}

func unknownName(uri *url.URL) error {
	return fmt.Errorf("URI name %s in the certificate is none of spillway://operator, spillway://job/NAME, spillway://job/* and one spillway://node/NAME; issue the certificate again with one of them", uri)
}

// MayJoin says whether the holder may take part in a job.
func (i Identity) MayJoin(job string) bool {
	return i.Operator || slices.Contains(i.Jobs, AnyJob) || slices.Contains(i.Jobs, job)
}

// String is the identity as logs and texts name it.
func (i Identity) String() string {
	uris := i.URIs()
	if len(uris) == 0 {
		return "nobody"
	}
	names := make([]string, len(uris))
	for n, uri := range uris {
		names[n] = uri.String()
	}
	return strings.Join(names, " ")
}

// URIs are the names that say so in a certificate.
func (i Identity) URIs() []*url.URL {
	var uris []*url.URL
	if i.Operator {
		uris = append(uris, &url.URL{Scheme: scheme, Host: "operator"})
	}
	if i.Node != "" {
		uris = append(uris, &url.URL{Scheme: scheme, Host: "node", Path: "/" + i.Node})
	}
	for _, name := range i.Jobs {
		// RawPath keeps the star a star.
		uris = append(uris, &url.URL{Scheme: scheme, Host: "job", Path: "/" + name, RawPath: "/" + name})
	}
	return uris
}

// check says what is wrong with an identity that a certificate is asked for.
func (i Identity) check() error {
	switch {
	case i.Node == "":
	case !IsNodeName(i.Node):
		return fmt.Errorf("node name %q: 1 to 64 letters, digits, '-' and '.', beginning and ending with a letter or digit", i.Node)
	case i.Operator || len(i.Jobs) > 0:
		return errors.New("an appliance's certificate is for its cluster alone; issue others for operators and workers")
	}
	for _, name := range i.Jobs {
		if name != AnyJob && !IsJobName(name) {
			return fmt.Errorf("job name %q: 1 to 63 small letters, digits and '-', beginning with a letter and not ending with '-'; or %s for all jobs", name, AnyJob)
		}
	}
	return nil
}
