package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/ctl/client"
	"spillway/ctl/output"
)

func switchCommand(g *global) *cli.Command {
	var slots bool
	return &cli.Command{
		Name:  "switch",
		Usage: "the ToR: how the appliance stands with it, its tables, groups and slots",
		Description: `Says whether there is a session, whether this appliance is the primary, and whether
the entries are those that the jobs need. REPAIRS counts entries that were missing,
changed or put there by somebody else.

  spillctl switch
  spillctl switch --slots            also what its slots hold, where they can be read`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "slots", Usage: "also read the slots", Destination: &slots},
		},
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				tor, err := appliance.Node.GetSwitch(ctx, &v1.GetSwitchRequest{Slots: slots})
				if err != nil {
					return err
				}
				return g.show(output.Of(tor), func(w io.Writer) error { return printSwitch(w, tor, slots, time.Now()) })
			})
		},
	}
}

func printSwitch(w io.Writer, tor *v1.GetSwitchResponse, slots bool, now time.Time) error {
	var p output.Pairs
	state := output.Word(tor.State)
	if since := output.Since(tor.Since, now); since != "" {
		state += " for " + since
	}
	p.Add("ToR", "%s", tor.Target)
	p.Add("state", "%s", state)
	p.Add("", "%s", tor.Reason)
	role := "no: another controller is"
	if tor.Primary {
		role = "yes"
	}
	p.Add("primary", "%s; election id %s, P4Runtime %s", role, tor.ElectionId, tor.P4Runtime)
	p.Add("program", "cookie %#x, %d slots of %d elements", tor.PipelineCookie, tor.Slots, tor.Elements)
	p.Add("since start", "%d sessions, %d pipelines pushed, %d entries repaired", tor.Sessions, tor.Pushes, tor.Repairs)
	if checked := output.Since(tor.LastCheck, now); checked != "" {
		p.Add("last check", "%s ago", checked)
	}
	if err := p.Write(w); err != nil {
		return err
	}
	if err := printTables(w, tor); err != nil {
		return err
	}
	if !slots {
		return nil
	}
	return printTorSlots(w, tor)
}

func printTables(w io.Writer, tor *v1.GetSwitchResponse) error {
	tables := output.NewRows("TABLE", ">ENTRIES", ">WANTED", ">SIZE")
	for _, table := range tor.Tables {
		tables.Add(table.Name, table.Entries, table.Wanted, table.Size)
	}
	groups := output.NewRows(">GROUP", "JOB", "PORTS")
	for _, group := range tor.Groups {
		groups.Add(group.Id, group.Job, output.Ranks(group.Ports))
	}
	for _, rows := range []*output.Rows{tables, groups} {
		if rows.Empty() {
			continue
		}
		fmt.Fprintln(w)
		if err := rows.Write(w); err != nil {
			return err
		}
	}
	return nil
}

func printTorSlots(w io.Writer, tor *v1.GetSwitchResponse) error {
	fmt.Fprintln(w)
	if !tor.SlotsReadable {
		_, err := fmt.Fprintln(w, "The slots of this target cannot be read.")
		return err
	}
	if len(tor.Occupied) == 0 {
		_, err := fmt.Fprintln(w, "All slots are free.")
		return err
	}
	rows := output.NewRows(">SLOT", "JOB", ">CHUNK", ">PRIORITY", "HAVE", "WAITS FOR")
	for _, slot := range tor.Occupied {
		rows.Add(slot.Index, slot.Job, slot.Seq, slot.Priority, output.Ranks(slot.Present), output.Ranks(slot.Missing))
	}
	return rows.Write(w)
}
