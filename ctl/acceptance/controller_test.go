package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"os"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"spillway/p4/client"
)

// torDevice is the software ToR's P4Runtime device id.
const torDevice = 7

// beController is a second controller that knows nothing of this appliance: TARGET. It makes itself the primary, takes away all entries of one table,
// says "tampered",
// and goes away with its next line of stdin.
func beController(ctx context.Context, args []string) int {
	if err := tamper(ctx, args[0]); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

func tamper(ctx context.Context, target string) error {
	c, err := client.Dial(ctx, client.Config{Target: target, Device: torDevice, Election: &client.ElectionID{High: 9}})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.WaitPrimary(ctx); err != nil {
		return err
	}
	entries, err := c.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{}}})
	if err != nil {
		return err
	}
	var gone []*p4v1.Update
	var table uint32
	for _, entity := range entries {
		entry := entity.GetTableEntry()
		if entry.GetIsDefaultAction() || len(entry.GetMatch()) == 0 || table != 0 && entry.GetTableId() != table {
			continue
		}
		table = entry.GetTableId()
		gone = append(gone, &p4v1.Update{Type: p4v1.Update_DELETE,
			Entity: &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: table, Match: entry.GetMatch(),
				Priority: entry.GetPriority()}}}})
	}
	if len(gone) == 0 {
		return fmt.Errorf("the ToR has no entries among %d", len(entries))
	}
	if err := c.Write(ctx, gone...); err != nil {
		return err
	}
	fmt.Println("tampered", len(gone))
	bufio.NewScanner(os.Stdin).Scan()
	return nil
}
