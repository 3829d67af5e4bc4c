package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"spillway/p4/softtor"
	"spillway/wire"
	"spillway/worker"
)

// beWorker takes part in a job: ADDR JOB RANK ADDRESS. It says "joined", and then for each line "reduce N" reduces N numbers and says "reduced", or
// "failed" and
// why; "leave" ends it.
func beWorker(ctx context.Context, args []string) int {
	rank, err := strconv.Atoi(args[2])
	if err != nil {
		panic(err)
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w, err := worker.Join(ctx, args[0], args[1], rank, worker.WithAddress(netip.MustParseAddr(args[3])), worker.WithLogger(quiet))
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	fmt.Println("joined")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		what, much, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "reduce":
			n, err := strconv.Atoi(much)
			if err != nil {
				panic(err)
			}
			if err := sum(ctx, w, n, rank); err != nil {
				fmt.Println("failed", err)
			} else {
				fmt.Println("reduced", n)
			}
		case "leave":
			if err := w.Close(); err != nil {
				fmt.Println("failed", err)
				return 1
			}
			fmt.Println("left")
			return 0
		}
	}
	return 0
}

// sum adds 1 + rank at every place up, over all ranks, and checks the sum against the one of n ranks.
func sum(ctx context.Context, w *worker.Worker, n, rank int) error {
	data := make([]int32, n)
	for i := range data {
		data[i] = int32(rank + 1)
	}
	if err := w.AllReduceInt32(ctx, data, wire.Sum); err != nil {
		return err
	}
	workers := int32(w.Params().Workers)
	for i, got := range data {
		if got != workers*(workers+1)/2 {
			return fmt.Errorf("place %d is %d", i, got)
		}
	}
	return nil
}

// beImpostor sends DATA of a job with a header that is wrong in one way, all the time: JOB-ID GENERATION HOME. It has no part in the job.
func beImpostor(ctx context.Context, args []string) int {
	id, err1 := strconv.Atoi(args[0])
	generation, err2 := strconv.Atoi(args[1])
	conn, err3 := net.Dial("udp", args[2])
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(err)
	}
	defer conn.Close()
	header := wire.Header{Version: wire.Version, Type: wire.Data, Op: wire.Sum, Job: uint16(id), Generation: uint8(generation), Cookie: 0xbadbadba,
		Bitmap: 1, Elems: 32, Slot: wire.NoSlot}
	packet := make([]byte, wire.HeaderSize+4*32)
	header.Encode(packet)
	fmt.Println("sending")
	for ctx.Err() == nil {
		if _, err := conn.Write(packet); err != nil {
			panic(err)
		}
		time.Sleep(5 * time.Millisecond) // its rate
	}
	return 0
}

// beTor is the software ToR of a configuration in JSON. It says "ready".
func beTor(ctx context.Context, text string) int {
	var config softtor.Config
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		panic(err)
	}
	config.Ready = func(net.Addr) { fmt.Println("ready") }
	if err := softtor.Run(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
