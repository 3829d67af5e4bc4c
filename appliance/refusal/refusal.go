// Package refusal is how the appliance says no: one error type with a code of gRPC, a reason for programs, and a text for people that says
// what was wrong and what to do about it.
package refusal

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Domain is that of the ErrorInfo in the details of every status.
const Domain = "spillway"

// Reason tells refusals of one code apart. It is part of the API.
type Reason string

// The reasons.
const (
	BadRequest      Reason = "BAD_REQUEST"        // a field is wrong in itself
	NoSuchJob       Reason = "NO_SUCH_JOB"        // no job has the name
	JobExists       Reason = "JOB_EXISTS"         // a job has the name already
	NoRoom          Reason = "NO_ROOM"            // the job does not fit into what is free
	OverQuota       Reason = "OVER_QUOTA"         // the job is larger than any may be
	JobInUse        Reason = "JOB_IN_USE"         // workers are present
	JobDraining     Reason = "JOB_DRAINING"       // nobody may join any more
	JobDeleted      Reason = "JOB_DELETED"        // it was deleted during the call
	RankTaken       Reason = "RANK_TAKEN"         // somebody else is present as this rank
	NoSuchRank      Reason = "NO_SUCH_RANK"       // the job has fewer ranks
	AddressTaken    Reason = "ADDRESS_TAKEN"      // another rank of the job has the address
	AddressForeign  Reason = "ADDRESS_FOREIGN"    // the caller may not send from the address it names
	GenerationOver  Reason = "GENERATION_OVER"    // what is to be resumed has ended
	Unreachable     Reason = "UNREACHABLE"        // no interface of the aggregator leads to the address
	NotAuthorised   Reason = "NOT_AUTHORISED"     // the certificate does not say that the caller may
	NotOverPlainTCP Reason = "NOT_OVER_PLAIN_TCP" // only over the Unix socket, or with a certificate
	TooMany         Reason = "TOO_MANY"           // calls or workers at once, or too often
	NoSwitch        Reason = "NO_SWITCH"          // the appliance has no ToR
	SwitchAway      Reason = "SWITCH_AWAY"        // there is no session with the ToR
	SwitchRefused   Reason = "SWITCH_REFUSED"     // the ToR did not take an entry
	DataPlane       Reason = "DATA_PLANE"         // the kernel refused a change
	Storage         Reason = "STORAGE"            // the state could not be written
	Resized         Reason = "RESIZED"            // an elastic job went on with other workers: join again, for any rank
	NotLeader       Reason = "NOT_LEADER"         // another appliance leads: "leader" in the metadata is its address, if it is known
	OldTerm         Reason = "OLD_TERM"           // an order of an appliance that leads no more
	ShuttingDown    Reason = "SHUTTING_DOWN"      // the daemon is going away; call again
	NoSuchNode      Reason = "NO_SUCH_NODE"       // no appliance of the cluster has the name
	NodeAway        Reason = "NODE_AWAY"          // the appliance does not answer
	NodeInUse       Reason = "NODE_IN_USE"        // the appliance is there, or jobs have a place there
	NoRoomToMove    Reason = "NO_ROOM_TO_MOVE"    // the other appliances have no room for what is homed there
	Internal        Reason = "INTERNAL"           // a bug
)

// Error is a refusal.
type Error struct {
	Code   codes.Code
	Reason Reason
	// Text says what was wrong and what to do.
	Text string
	// Metadata are the values that a program may want: "free", "asked", "job".
	Metadata map[string]string
	cause    error
}

// New is a refusal with a text in the manner of fmt.Errorf, which may wrap a cause.
func New(code codes.Code, reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Reason: reason, Text: err.Error(), cause: errors.Unwrap(err)}
}

// With adds a value for programs.
func (e *Error) With(key string, value any) *Error {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[key] = fmt.Sprint(value)
	return e
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns what the text wraps.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus makes gRPC send code, text and ErrorInfo.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.Code, e.Text)
	if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: string(e.Reason), Domain: Domain, Metadata: e.Metadata}); err == nil {
		return detailed
	}
	return s
}

// Of finds the refusal in an error, on either side of gRPC. It is nil when there is none.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() == codes.OK {
		return nil
	}
	e = &Error{Code: s.Code(), Text: s.Message(), cause: err}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == Domain {
			e.Reason, e.Metadata = Reason(info.Reason), info.Metadata
		}
	}
	return e
}
