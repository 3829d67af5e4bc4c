package command

import (
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"spillway/appliance/certs"
	"spillway/ctl/output"
)

// certOptions are what the commands below certs share.
type certOptions struct {
	dir      string
	name     string
	lifetime time.Duration
	force    bool
}

func (o *certOptions) flags(name, nameUsage string, lifetime time.Duration) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "dir", Usage: "`DIRECTORY` of the authority, where the files go", Value: ".", Destination: &o.dir},
		&cli.StringFlag{Name: "name", Usage: nameUsage, Value: name, Destination: &o.name},
		&cli.DurationFlag{Name: "lifetime", Usage: "how long it is valid", Value: lifetime, Destination: &o.lifetime},
		&cli.BoolFlag{Name: "force", Usage: "replace files that are there", Destination: &o.force},
	}
}

func certsCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:        "certs",
		Usage:       "make an authority and certificates for a lab",
		Subcommands: []*cli.Command{certsAuthorityCommand(g), certsServerCommand(g), certsOperatorCommand(g), certsWorkerCommand(g), certsNodeCommand(g)},
	}
}

func certsAuthorityCommand(g *global) *cli.Command {
	o := &certOptions{}
	return &cli.Command{
		Name:  "ca",
		Usage: "make an authority: ca.crt and ca.key",
		Description: `Whoever has ca.key can make himself an operator: it stays with you. ca.crt goes to the
appliance, its operators and its workers.

  spillctl certs ca --dir lab
  spillctl certs server --dir lab --ip 10.0.0.1
  spillctl certs operator --dir lab
  spillctl certs worker --dir lab --job train`,
		Flags: o.flags("spillway lab", "`NAME` of the authority, for people", certs.AuthorityLifetime),
		Action: func(*cli.Context) error {
			authority, err := certs.NewAuthority(o.name, o.lifetime)
			if err != nil {
				return err
			}
			if err := authority.Write(o.dir, o.force); err != nil {
				return err
			}
			return g.showFiles(o.dir, "ca", "keep the key to yourself")
		},
	}
}

func certsServerCommand(g *global) *cli.Command {
	o, dns, addresses := &certOptions{}, cli.NewStringSlice(), cli.NewStringSlice()
	return &cli.Command{
		Name:  "server",
		Usage: "make the appliance's certificate: NAME.crt and NAME.key",
		Description: `For api.tls of the appliance's configuration. It must name what workers and operators
call the appliance by.

  spillctl certs server --dir lab --ip 10.0.0.1 --dns agg0.lab`,
		Flags: append(o.flags("server", "`NAME` of the files", certs.PairLifetime),
			&cli.StringSliceFlag{Name: "dns", Usage: "host `NAME` of the appliance; may be repeated", Destination: dns},
			&cli.StringSliceFlag{Name: "ip", Usage: "`ADDRESS` of the appliance; may be repeated", Destination: addresses}),
		Action: func(*cli.Context) error {
			ips, err := parseAddresses(addresses.Value())
			if err != nil {
				return err
			}
			if len(ips)+len(dns.Value()) == 0 {
				return usagef("certs server: how is the appliance called? Give --ip or --dns")
			}
			return g.issue(o, certs.Request{Name: o.name, Server: true, DNS: dns.Value(), Addresses: ips, Lifetime: o.lifetime},
				"for api.tls of the appliance's configuration")
		},
	}
}

func certsOperatorCommand(g *global) *cli.Command {
	o := &certOptions{}
	return &cli.Command{
		Name:  "operator",
		Usage: "make an operator's certificate: NAME.crt and NAME.key",
		Description: `Its holder may do everything over TCP that the Unix socket allows.

  spillctl certs operator --dir lab
  spillctl --addr 10.0.0.1:9690 --ca lab/ca.crt --cert lab/operator.crt --key lab/operator.key status`,
		Flags: o.flags("operator", "`NAME` of the files and of the operator", certs.PairLifetime),
		Action: func(*cli.Context) error {
			return g.issue(o, certs.Request{Name: o.name, Identity: certs.Identity{Operator: true}, Lifetime: o.lifetime},
				"for --ca, --cert and --key of spillctl")
		},
	}
}

func certsWorkerCommand(g *global) *cli.Command {
	o, jobs, addresses := &certOptions{}, cli.NewStringSlice(), cli.NewStringSlice()
	return &cli.Command{
		Name:  "worker",
		Usage: "make a certificate for the workers of jobs: NAME.crt and NAME.key",
		Description: `Its holders may join the jobs that it names, and nothing else. A worker that sends
from another address than the one it calls from needs that address in it.

  spillctl certs worker --dir lab --job train
  spillctl certs worker --dir lab --name any --job '*' --ip 10.0.1.7`,
		Flags: append(o.flags("worker", "`NAME` of the files", certs.PairLifetime),
			&cli.StringSliceFlag{Name: "job", Usage: "`JOB` that its holders may join, or '*' for all; may be repeated", Destination: jobs},
			&cli.StringSliceFlag{Name: "ip", Usage: "`ADDRESS` that a worker sends from; may be repeated", Destination: addresses}),
		Action: func(*cli.Context) error {
			ips, err := parseAddresses(addresses.Value())
			if err != nil {
				return err
			}
			if len(jobs.Value()) == 0 {
				return usagef("certs worker: which jobs may its holders join? Give --job NAME, or --job '*'")
			}
			return g.issue(o, certs.Request{Name: o.name, Identity: certs.Identity{Jobs: jobs.Value()}, Addresses: ips, Lifetime: o.lifetime},
				"for worker.WithTLS")
		},
	}
}

func certsNodeCommand(g *global) *cli.Command {
	o, node, dns, addresses := &certOptions{}, "", cli.NewStringSlice(), cli.NewStringSlice()
	return &cli.Command{
		Name:  "node",
		Usage: "make the certificate by which an appliance proves to its cluster which it is",
		Description: `For cluster.tls of the appliance's configuration. Whoever has it can give orders to the
other appliances: let an authority of their own issue it, which no worker and no operator has
a certificate of. It must name what the others call the appliance by.

  spillctl certs ca --dir lab/nodes --name 'the appliances of rack 7'
  spillctl certs node --dir lab/nodes --node rack7-a --ip 10.1.0.1`,
		Flags: append(o.flags("node", "`NAME` of the files", certs.PairLifetime),
			&cli.StringFlag{Name: "node", Usage: "`NAME` of the appliance, as in its configuration", Destination: &node},
			&cli.StringSliceFlag{Name: "dns", Usage: "host `NAME` of the appliance; may be repeated", Destination: dns},
			&cli.StringSliceFlag{Name: "ip", Usage: "`ADDRESS` of the appliance in cluster.listen and its member of etcd; may be repeated", Destination: addresses}),
		Action: func(*cli.Context) error {
			ips, err := parseAddresses(addresses.Value())
			if err != nil {
				return err
			}
			if node == "" {
				return usagef("certs node: which appliance? Give --node, as name in its configuration")
			}
			if len(ips)+len(dns.Value()) == 0 {
				return usagef("certs node: how do the others call the appliance? Give --ip or --dns")
			}
			return g.issue(o, certs.Request{Name: node, Identity: certs.Identity{Node: node}, DNS: dns.Value(), Addresses: ips, Lifetime: o.lifetime},
				"for cluster.tls of the appliance's configuration")
		},
	}
}

func parseAddresses(texts []string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, text := range texts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, usagef("--ip %q is no address", text)
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func (g *global) issue(o *certOptions, request certs.Request, use string) error {
	authority, err := certs.LoadAuthority(o.dir)
	if err != nil {
		return err
	}
	pair, err := authority.Issue(request)
	if err != nil {
		return err
	}
	if err := pair.Write(o.dir, o.name, o.force); err != nil {
		return err
	}
	return g.showFiles(o.dir, o.name, use)
}

func (g *global) showFiles(dir, name, use string) error {
	path := filepath.Join(dir, name)
	o := (&output.Object{}).With("certificate", path+".crt").With("key", path+".key").With("ca", filepath.Join(dir, "ca.crt"))
	return g.show(o, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s.crt and %s.key: %s\n", path, path, use)
		return err
	})
}
