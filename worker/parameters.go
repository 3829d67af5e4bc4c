package worker

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/wire"
	"spillway/worker/engine"
)

// Bounds of what an appliance may ask of a worker's timers: beyond them a mistake in units is likelier than a wish.
const (
	maxRTO     = time.Minute
	maxSilence = 24 * time.Hour
)

// paramsOf is what the appliance said as Params of the rank that asked, or all that is wrong with it: an appliance may be broken, or
// not be one.
func paramsOf(said *v1.Parameters, rank int) (Params, error) {
	r := reading{}
	p := Params{
		Job:        uint16(r.number("job id", said.GetJobId(), math.MaxUint16)),
		Generation: uint8(said.GetGeneration()), // packets carry it modulo 256
		Cookie:     said.GetCookie(),
		Rank:       int(r.number("rank", said.GetRank(), engine.MaxTreeWorkers)),
		Workers:    int(r.number("workers", said.GetWorkers(), engine.MaxTreeWorkers)),
		Elements:   int(r.number("elements", said.GetElements(), math.MaxUint16)),
		Window:     int(r.number("window", said.GetWindow(), math.MaxUint16)),
		WireBits:   int(r.number("bits of an element on the wire", said.GetWireBits(), math.MaxUint8)),
		Elastic:    said.GetElastic(),
		Priority:   uint8(r.number("priority", said.GetPriority(), math.MaxUint8)),
		WorkerPort: uint16(r.number("worker port", said.GetWorkerPort(), math.MaxUint16)),
		Addr:       r.address("own address", said.GetAddress()),
		MinRTO:     r.duration("least retransmission timeout", said.GetMinRto(), maxRTO),
		MaxRTO:     r.duration("greatest retransmission timeout", said.GetMaxRto(), maxRTO),
		Silence:    r.duration("silence", said.GetSilence(), maxSilence),
	}
	if p.Rank != rank {
		r.wrong("they are those of rank %d, not %d", p.Rank, rank)
	}
	if said.GetGroup() != "" {
		p.Group = r.address("group", said.GetGroup())
	}
	if region := said.GetTor(); region != nil {
		p.Tor = &TorRegion{
			Base:   uint16(r.number("tor base", region.GetBase(), math.MaxUint16)),
			Slots:  uint16(r.number("tor slots", region.GetSlots(), math.MaxUint16)),
			Period: region.GetPeriod(),
			Offset: uint16(r.number("tor offset", region.GetOffset(), math.MaxUint16)),
		}
	}
	p.Level = r.level(said.GetTree())
	for _, h := range said.GetHomes() {
		home := Home{
			Addr:  netip.AddrPortFrom(r.address("home", h.GetAddress()), uint16(r.number("home port", h.GetPort(), math.MaxUint16))),
			Ports: uint16(r.number("home ports", h.GetPorts(), math.MaxUint16)),
		}
		if home.Ports == 0 {
			r.wrong("a home has no ports")
		}
		p.Homes = append(p.Homes, home)
	}
	if quorum := said.GetQuorum(); quorum != nil {
		p.Policy = Policy{
			Quorum: int(r.number("quorum", quorum.GetWorkers(), math.MaxUint16)),
			After:  r.duration("time before a release", quorum.GetAfter(), maxSilence),
			MaxLag: int(r.number("greatest lag", quorum.GetMaxLag(), math.MaxUint16)),
		}
	}
	err := errors.Join(r.errs...)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return Params{}, fmt.Errorf("the appliance sent parameters that cannot be: %w", err)
	}
	return p, nil
}

// reading collects what is wrong while fields are read.
type reading struct{ errs []error }

func (r *reading) wrong(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

func (r *reading) number(what string, n, most uint32) uint32 {
	if n > most {
		r.wrong("%s %d is beyond %d", what, n, most)
		return 0
	}
	return n
}

func (r *reading) address(what, text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		r.wrong("%s: %w", what, err)
	}
	return addr
}

// level reads a worker's place in a tree, nil if there is none.
func (r *reading) level(said *v1.TreePlace) *Level {
	if said == nil {
		return nil
	}
	level := &Level{Bit: int(r.number("bit", said.GetBit(), wire.MaxChildren-1)), Ranks: r.ranks(said.GetRanks())}
	for _, branch := range said.GetBeyond() {
		level.Beyond = append(level.Beyond, r.ranks(branch.GetRanks()))
	}
	return level
}

func (r *reading) ranks(numbers []uint32) []int {
	var ranks []int
	for _, n := range numbers {
		ranks = append(ranks, int(r.number("rank", n, engine.MaxTreeWorkers-1)))
	}
	return ranks
}

// duration reads one that may be left out, and is 0 then.
func (r *reading) duration(what string, said *durationpb.Duration, most time.Duration) time.Duration {
	if said == nil {
		return 0
	}
	d := said.AsDuration()
	if err := said.CheckValid(); err != nil || d < 0 || d > most {
		r.wrong("%s %s is not between 0 and %s", what, d, most)
		return 0
	}
	return d
}
