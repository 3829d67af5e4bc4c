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

func statusCommand(g *global) *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "what the appliance is, has, and has given to jobs",
		Description: `Says who the appliance is, how its data plane sits on its interfaces, what it has
given to jobs and what is left, how it stands with the ToR, and what is wrong.

  spillctl status
  spillctl status --output json | jq .capacity.tor_slots`,
		Action: func(c *cli.Context) error {
			return g.call(c, func(ctx context.Context, appliance *client.Client) error {
				node, err := appliance.Node.GetNode(ctx, &v1.GetNodeRequest{})
				if err != nil {
					return err
				}
				return g.show(output.Of(node), func(w io.Writer) error { return printNode(w, node, time.Now()) })
			})
		},
	}
}

func printNode(w io.Writer, node *v1.GetNodeResponse, now time.Time) error {
	var p output.Pairs
	p.Add("appliance", "%s, spillwayd %s on Linux %s", node.Name, node.Version, node.Kernel)
	how := "loaded"
	if node.Adopted {
		how = "taken over"
	}
	p.Add("data plane", "program %s, %s %s ago", node.ProgramTag, how, output.Since(node.Started, now))
	for _, i := range node.Interfaces {
		p.Add("interface", "%s", interfaceText(i))
	}
	tor := "none"
	if node.Switch != v1.SwitchState_SWITCH_STATE_UNSPECIFIED {
		tor = output.Word(node.Switch)
	}
	p.Add("ToR", "%s", tor)
	p.Add("jobs", "%d, with %d workers present", node.Jobs, node.WorkersPresent)
	if err := p.Write(w); err != nil {
		return err
	}
	if capacity := node.Capacity; capacity != nil {
		fmt.Fprintln(w)
		if err := printCapacity(w, capacity); err != nil {
			return err
		}
	}
	if len(node.Warnings) > 0 {
		fmt.Fprintln(w)
	}
	for _, warning := range node.Warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}

func interfaceText(i *v1.Interface) string {
	state := "up"
	if !i.Up {
		state = "down"
	}
	mode := i.Mode
	if mode == "" {
		mode = "no"
	}
	text := fmt.Sprintf("%s %s, %s, MTU %d, %s XDP", i.Name, i.Address, state, i.Mtu, mode)
	if i.SteeringRules > 0 {
		text += fmt.Sprintf(", %d steering rules", i.SteeringRules)
	}
	return text
}

func printCapacity(w io.Writer, capacity *v1.Capacity) error {
	rows := output.NewRows("CAPACITY", ">USED", ">FREE", ">TOTAL", ">LARGEST RUN")
	add := func(name string, a *v1.Amount, write func(uint64) string, largest string) {
		if a != nil {
			rows.Add(name, write(a.Used), write(a.Total-min(a.Used, a.Total)), write(a.Total), largest)
		}
	}
	number := func(n uint64) string { return fmt.Sprint(n) }
	add("jobs", capacity.Jobs, number, "")
	for _, class := range capacity.SlotClasses {
		add(fmt.Sprintf("slots of %d elements", class.Elements), class.Slots, number, fmt.Sprint(class.LargestFree))
	}
	add("memory", capacity.MemoryBytes, output.Bytes, "")
	add("multicast groups", capacity.Groups, number, "")
	add("ToR slots", capacity.TorSlots, number, "")
	return rows.Write(w)
}
