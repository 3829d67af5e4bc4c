package rack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/loadtest/reference"
	"spillway/wire"
	"spillway/worker"
)

// elasticReport is what a process of the role elastic says: of each generation that it takes part in, that it is about to reduce something large, and who is dead.
type elasticReport struct {
	Generation, Rank int
	// Trainees are the processes of the generation, by rank.
	Trainees []int
	Large    bool
	Steps    int
	Dead     []int
	Who      []string
	Error    string
}

const (
	elasticElements = 20_000
	// At the rate of the rack this takes seconds.
	largeElements = 16_000_000
	checkedSteps  = 3
)

// trainee is a process of the role elastic.
type trainee struct {
	w    *worker.Worker
	own  int // which process it is, whatever its rank
	out  *json.Encoder
	all  []int
	step int
}

// training is a role: it takes an invitation, joins for any rank and reduces, checking every bit, until its input ends. When workers die or wait it rejoins. In the first generation
// it reduces something large after a few steps, and says so before.
func training(in *json.Decoder, out *json.Encoder) error {
	var invitation Invitation
	if err := in.Decode(&invitation); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { // ends with the process
		var more json.RawMessage
		for in.Decode(&more) == nil {
		}
		cancel(errors.New("the input ended"))
	}()
	fails := func(err error) error { return errors.Join(out.Encode(elasticReport{Error: err.Error()}), err) }
	quiet := worker.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	w, err := invitation.Join(ctx, worker.WithAnyRank(), quiet)
	if err != nil {
		return fails(err)
	}
	t := &trainee{w: w, own: invitation.Rank, out: out}
	files, goroutines := 0, 0
	for {
		err := t.begin(ctx)
		if err == nil && files == 0 {
			files, goroutines = openHere(), runtime.NumGoroutine()
		} else if err == nil {
			err = settles(files, goroutines)
		}
		for again := false; err == nil && !again; {
			again, err = t.train(ctx)
		}
		if ctx.Err() != nil {
			return w.Close()
		}
		var dead *worker.DeadRanksError
		if errors.As(err, &dead) {
			err = out.Encode(elasticReport{Dead: dead.Ranks, Who: dead.Descriptions, Steps: t.step, Generation: int(w.Params().Generation), Rank: w.Rank()})
		}
		if err == nil {
			err = w.Rejoin(ctx)
		}
		if ctx.Err() != nil {
			return w.Close()
		}
		if err != nil {
			return errors.Join(fails(err), w.Close())
		}
	}
}

// begin learns who is in a generation.
func (t *trainee) begin(ctx context.Context) error {
	all := make([]byte, t.w.Workers())
	if err := t.w.AllGather(ctx, []byte{byte(t.own)}, all); err != nil {
		return err
	}
	t.all, t.step = nil, 0
	for _, own := range all {
		t.all = append(t.all, int(own))
	}
	return t.out.Encode(elasticReport{Generation: int(t.w.Params().Generation), Rank: t.w.Rank(), Trainees: t.all})
}

// train is one step, and whether all agree to rejoin after it.
func (t *trainee) train(ctx context.Context) (again bool, err error) {
	t.step++
	generation := int(t.w.Params().Generation)
	if generation == 1 && t.step > checkedSteps {
		if err := t.out.Encode(elasticReport{Large: true}); err != nil {
			return false, err
		}
		return false, t.w.AllReduce(ctx, make([]float32, largeElements))
	}
	var floats [][]float32
	var ints [][]int32
	for _, own := range t.all {
		floats, ints = append(floats, gradient(own, generation, t.step)), append(ints, exact(own, generation, t.step))
	}
	sum, err := reference.SumFloat32(floats, t.w.Params().Elements)
	if err != nil {
		return false, err
	}
	exactSum, _, err := reference.ReduceInt32(ints, wire.Sum)
	if err != nil {
		return false, err
	}
	data, exactly := floats[t.w.Rank()], ints[t.w.Rank()]
	if err := t.w.AllReduce(ctx, data); err != nil {
		return false, err
	}
	if err := t.w.AllReduceInt32(ctx, exactly, wire.Sum); err != nil {
		return false, err
	}
	for i := range data {
		if math.Float32bits(data[i]) != math.Float32bits(sum[i]) {
			return false, fmt.Errorf("generation %d, step %d, element %d: %v, want %v", generation, t.step, i, data[i], sum[i])
		}
	}
	if !slices.Equal(exactly, exactSum) {
		return false, fmt.Errorf("generation %d, step %d: the sum of integers is another", generation, t.step)
	}
	if t.step == checkedSteps {
		if err := t.out.Encode(elasticReport{Generation: generation, Rank: t.w.Rank(), Trainees: t.all, Steps: t.step}); err != nil {
			return false, err
		}
	}
	return t.w.AgreeToRejoin(ctx)
}

// gradient is what a trainee contributes to a step, exact its whole numbers.
func gradient(own, generation, step int) []float32 {
	r, data := rand.New(rand.NewPCG(uint64(own), uint64(generation<<20|step))), make([]float32, elasticElements)
	for i := range data {
		data[i] = float32(r.NormFloat64())
	}
	return data
}

func exact(own, generation, step int) []int32 {
	r, data := rand.New(rand.NewPCG(uint64(own)+100, uint64(generation<<20|step))), make([]int32, elasticElements)
	for i := range data {
		data[i] = r.Int32N(1<<24) - 1<<23
	}
	return data
}

// settles waits until no more files are open and no more goroutines run than at the beginning.
func settles(files, goroutines int) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-look.C {
		f, g := openHere(), runtime.NumGoroutine()
		if f <= files && g <= goroutines {
			return nil
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			return fmt.Errorf("after a rejoin %d files are open and %d goroutines run, %d and %d before: %s", f, g, files, goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func openHere() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err) // /proc is there: the rack needs it
	}
	return len(entries)
}

// tell is the next report of a process for which the condition holds.
func tell(t *testing.T, p *Process, what string, condition func(elasticReport) bool) elasticReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var said elasticReport
		if err := p.Receive(ctx, &said); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if said.Error != "" {
			t.Fatalf("%s: %s", what, said.Error)
		}
		if condition(said) {
			return said
		}
	}
}

// generationOf has all processes reach some checked steps of a generation of these trainees by rank.
func generationOf(t *testing.T, all []*Process, generation int, trainees ...int) {
	t.Helper()
	for i, p := range all {
		said := tell(t, p, fmt.Sprintf("process %d in generation %d", i, generation), func(e elasticReport) bool { return e.Generation == generation && e.Steps == checkedSteps })
		if !slices.Equal(said.Trainees, trainees) {
			t.Fatalf("generation %d is of %v, want %v", generation, said.Trainees, trainees)
		}
	}
}

// Four train; one is killed in the middle of a reduction, and is named; three go on; another takes its place, and four go on. Every sum is the right one.
func TestElasticTraining(t *testing.T) {
	for _, tor := range []Tor{{}, softTor(32)} {
		t.Run(fmt.Sprintf("%d slots in the ToR", tor.Slots), func(t *testing.T) {
			r := build(t, Config{Workers: 4, Rate: 200_000_000, Tor: tor})
			job := Job{Name: "elastic", Window: 64, MinWorkers: 2, Settle: 300 * time.Millisecond, LostAfter: time.Second}
			if err := r.AddJob(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			invitations, err := r.Invite(job)
			if err != nil {
				t.Fatal(err)
			}
			start := func(host int) *Process {
				p, err := r.StartWorker(host, Command{Env: []string{"SPILLWAY_TEST_ROLE=elastic"}})
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Send(invitations[host]); err != nil {
					t.Fatal(err)
				}
				return p
			}
			all, at := make([]*Process, 4), make([]int, 4) // by rank of the first generation; at is the host of each
			var starting []*Process
			for host := range 4 {
				starting = append(starting, start(host))
			}
			for host, p := range starting {
				said := tell(t, p, "the first generation", func(e elasticReport) bool { return e.Steps == checkedSteps })
				all[said.Rank], at[said.Rank] = p, host
				if len(said.Trainees) != 4 || said.Generation != 1 {
					t.Fatalf("began as %+v", said)
				}
			}
			for _, p := range all {
				tell(t, p, "something large", func(e elasticReport) bool { return e.Large })
			}
			all[1].Kill()
			left := []*Process{all[0], all[2], all[3]}
			for _, p := range left {
				said := tell(t, p, "the death", func(e elasticReport) bool { return e.Dead != nil })
				want := fmt.Sprintf("pid %d", all[1].PID())
				if !slices.Equal(said.Dead, []int{1}) || len(said.Who) != 1 || !strings.Contains(said.Who[0], WorkerAddr(at[1]).String()+", host ") || !strings.HasSuffix(said.Who[0], want) {
					t.Errorf("told of %+v, want rank 1 with %s", said, want)
				}
			}
			generationOf(t, left, 2, at[0], at[2], at[3])
			again := append(left, start(at[1]))
			generationOf(t, again, 3, at[0], at[2], at[3], at[1])
			got, err := r.operator().jobs.GetJob(t.Context(), &v1.GetJobRequest{Name: job.Name})
			if err != nil || got.GetJob().GetGeneration() != 3 || got.GetJob().GetRanks() != 4 || got.GetJob().GetPresent() != 4 {
				t.Errorf("in the end: %v, %v", got, err)
			}
			for _, p := range again {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
