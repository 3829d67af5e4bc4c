package server

import (
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/refusal"
	"spillway/wire"
)

// Bounds of what a request may say, whatever the job. What the appliance has, and what a job may have of it, is the manager's to say.
const (
	maxDescription = 256
	maxSlotsListed = 10_000
	maxWindow      = 1 << 20
	maxTorSlots    = 1 << 20
	maxPriority    = 127
	// maxDuration is above all that makes sense, and far from what a time.Duration can hold.
	maxDuration = 30 * 24 * time.Hour
)

// wrong is a refusal of a field.
func wrong(field, format string, args ...any) *refusal.Error {
	return refusal.New(codes.InvalidArgument, refusal.BadRequest, field+": "+format, args...).With("field", field)
}

func validName(field, name string) *refusal.Error {
	if name == "" {
		return wrong(field, "is empty; name a job")
	}
	if !certs.IsJobName(name) {
		return wrong(field, "%q is no name of a job; take 1 to 63 small letters, digits and '-', beginning with a letter and not ending with '-'", clip(name))
	}
	return nil
}

func validNameOrAll(field, name string) *refusal.Error {
	if name == "" {
		return nil
	}
	return validName(field, name)
}

func validNode(name string) *refusal.Error {
	if name == "" {
		return wrong("name", "is empty; name an appliance")
	}
	if !certs.IsNodeName(name) {
		return wrong("name", "%q is no name of an appliance; spillctl nodes lists them", clip(name))
	}
	return nil
}

func validSpec(spec *v1.JobSpec) *refusal.Error {
	if spec == nil {
		return wrong("spec", "is missing; say at least name and workers")
	}
	if refused := validName("spec.name", spec.GetName()); refused != nil {
		return refused
	}
	if n := spec.GetWorkers(); n < 1 || n > wire.MaxChildren {
		return wrong("spec.workers", "%d; a job has 1 to %d", n, wire.MaxChildren)
	}
	if e := spec.GetElements(); e != 0 && (e < wire.MinElements || e > wire.MaxElements || e%wire.ElementStep != 0) {
		return wrong("spec.elements", "%d; take a multiple of %d from %d to %d, or 0 to have it chosen", e, wire.ElementStep, wire.MinElements, wire.MaxElements)
	}
	if w := spec.GetWindow(); w > maxWindow {
		return wrong("spec.window", "%d; take at most %d, or 0 for the appliance's default", w, maxWindow)
	}
	if p := spec.GetPriority(); p > maxPriority {
		return wrong("spec.priority", "%d; take 1 (least urgent) to %d, or 0 for 64", p, maxPriority)
	}
	if _, known := v1.TorUse_name[int32(spec.GetTor())]; !known {
		return wrong("spec.tor", "%d is none that this appliance knows; take none, private or shared", spec.GetTor())
	}
	if _, known := v1.Publication_name[int32(spec.GetPublication())]; !known {
		return wrong("spec.publication", "%d is none that this appliance knows; take multicast or unicast", spec.GetPublication())
	}
	if n := spec.GetTorSlots(); n > maxTorSlots || n&(n-1) != 0 {
		return wrong("spec.tor_slots", "%d; take a power of two up to %d, or 0 for the appliance's default", n, maxTorSlots)
	}
	for _, field := range []struct {
		name  string
		value *durationpb.Duration
	}{{"spec.min_rto", spec.GetMinRto()}, {"spec.max_rto", spec.GetMaxRto()}, {"spec.silence", spec.GetSilence()}, {"spec.grace", spec.GetGrace()},
		{"spec.settle", spec.GetSettle()}, {"spec.lost_after", spec.GetLostAfter()},
		{"spec.quorum.after", spec.GetQuorum().GetAfter()}} {
		if refused := validDuration(field.name, field.value); refused != nil {
			return refused
		}
	}
	if low, high := spec.GetMinRto(), spec.GetMaxRto(); low != nil && high != nil && low.AsDuration() > high.AsDuration() {
		return wrong("spec.min_rto", "%v is above max_rto, %v; make it at most that", low.AsDuration(), high.AsDuration())
	}
	return nil
}

func validDuration(field string, d *durationpb.Duration) *refusal.Error {
	if d == nil {
		return nil
	}
	if err := d.CheckValid(); err != nil {
		return wrong(field, "is no duration: %w; give one such as 10s", err)
	}
	if v := d.AsDuration(); v <= 0 || v > maxDuration {
		return wrong(field, "%v; give one above 0 and up to %v, or leave it out", v, maxDuration)
	}
	return nil
}

func validJoin(r *v1.JoinRequest) *refusal.Error {
	if refused := validName("job", r.GetJob()); refused != nil {
		return refused
	}
	if refused := validRank(r.GetRank()); refused != nil {
		return refused
	}
	if resume := r.GetResume(); resume != nil && resume.GetGeneration() == 0 {
		return wrong("resume.generation", "0; generations count from 1: leave resume out to join anew")
	}
	if n := len(r.GetDescription()); n > maxDescription {
		return wrong("description", "has %d bytes; take at most %d", n, maxDescription)
	}
	// It is shown to people, on terminals.
	if at := strings.IndexFunc(r.GetDescription(), func(c rune) bool { return !unicode.IsPrint(c) }); at >= 0 {
		return wrong("description", "has an unprintable character at byte %d; take printable ones", at)
	}
	return nil
}

func validLeave(r *v1.LeaveRequest) *refusal.Error {
	if refused := validName("job", r.GetJob()); refused != nil {
		return refused
	}
	if refused := validRank(r.GetRank()); refused != nil {
		return refused
	}
	if r.GetPart() == nil {
		return wrong("part", "is missing; give generation and cookie of the parameters that Join sent")
	}
	if r.GetPart().GetGeneration() == 0 {
		return wrong("part.generation", "0; generations count from 1: give that of the parameters that Join sent")
	}
	return nil
}

func validRank(rank uint32) *refusal.Error {
	if rank >= wire.MaxChildren {
		return refusal.New(codes.OutOfRange, refusal.NoSuchRank, "rank: %d; ranks are 0 to %d, and below the job's workers", rank, wire.MaxChildren-1).With("field", "rank")
	}
	return nil
}

func validSlots(r *v1.ListSlotsRequest) *refusal.Error {
	if n := r.GetLimit(); n > maxSlotsListed {
		return wrong("limit", "%d; take at most %d, or 0 for 100", n, maxSlotsListed)
	}
	return validName("job", r.GetJob())
}

func validHealth(r *health.HealthCheckRequest) *refusal.Error {
	if name := r.GetService(); name != "" && !isServed(name) {
		return refusal.New(codes.NotFound, refusal.BadRequest, "service: there is no %q here; ask for one of %s, or for none to ask for all", clip(name), strings.Join(served, ", "))
	}
	return nil
}
