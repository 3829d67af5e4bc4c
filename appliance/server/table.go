package server

import (
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/refusal"
)

// access is who may call a method. The zero access is nobody's.
type access int

const (
	nobody access = iota
	// operators: the Unix socket, and certificates of operators.
	operators
	// members: operators, certificates that name jobs, and callers over plain TCP.
	members
	// identified: operators, and certificates that name jobs.
	identified
	// peers: the other appliances of the cluster, at the door that is theirs alone.
	peers
	// anyone: even a caller whose certificate says nothing. Only to be told that there is no such method.
	anyone
)

// rule is what the gate knows of a method.
type rule struct {
	who access
	// request says what is wrong with a request, or why this caller may not make it. Nil: there is nothing to be wrong.
	request func(who *caller, request proto.Message) *refusal.Error
	// leads is set for what the leader of a cluster answers: another appliance passes it on.
	leads bool
	// health is set for the health service, which answers while the server goes away.
	health bool
}

// table says who may call what. It is the only place that does; a method that is not in it is refused.
var table = map[string]rule{
	v1.JobService_CreateJob_FullMethodName: {who: operators, leads: true, request: valid(func(r *v1.CreateJobRequest) *refusal.Error { return validSpec(r.GetSpec()) })},
	v1.JobService_DeleteJob_FullMethodName: {who: operators, leads: true, request: valid(func(r *v1.DeleteJobRequest) *refusal.Error { return validName("name", r.GetName()) })},
	v1.JobService_DrainJob_FullMethodName:  {who: operators, leads: true, request: valid(func(r *v1.DrainJobRequest) *refusal.Error { return validName("name", r.GetName()) })},
	v1.JobService_GetJob_FullMethodName:    {who: operators, leads: true, request: valid(func(r *v1.GetJobRequest) *refusal.Error { return validName("name", r.GetName()) })},
	v1.JobService_ListJobs_FullMethodName:  {who: operators, leads: true},
	v1.JobService_WatchJobs_FullMethodName: {who: operators, leads: true, request: valid(func(r *v1.WatchJobsRequest) *refusal.Error { return validNameOrAll("name", r.GetName()) })},

	v1.WorkerService_Join_FullMethodName: {who: members, request: request(func(who *caller, r *v1.JoinRequest) *refusal.Error {
		if refused := validJoin(r); refused != nil {
			return refused
		}
		if refused := who.mayJoin(r.GetJob()); refused != nil {
			return refused
		}
		// From here on the request has the address, and it is one that the caller may use.
		address, refused := who.sendsFrom(r.GetAddress())
		if refused != nil {
			return refused
		}
		r.Address = address.String()
		return nil
	})},
	v1.WorkerService_Leave_FullMethodName: {who: members, request: request(func(who *caller, r *v1.LeaveRequest) *refusal.Error {
		if refused := validLeave(r); refused != nil {
			return refused
		}
		return who.mayJoin(r.GetJob())
	})},

	v1.NodeService_GetNode_FullMethodName:      {who: operators},
	v1.NodeService_ListWorkers_FullMethodName:  {who: operators, leads: true, request: valid(func(r *v1.ListWorkersRequest) *refusal.Error { return validName("job", r.GetJob()) })},
	v1.NodeService_ListSlots_FullMethodName:    {who: operators, leads: true, request: valid(validSlots)},
	v1.NodeService_ListLevels_FullMethodName:   {who: operators, leads: true, request: valid(func(r *v1.ListLevelsRequest) *refusal.Error { return validNameOrAll("job", r.GetJob()) })},
	v1.NodeService_ListCounters_FullMethodName: {who: operators, leads: true, request: valid(func(r *v1.ListCountersRequest) *refusal.Error { return validNameOrAll("job", r.GetJob()) })},
	v1.NodeService_GetSwitch_FullMethodName:    {who: operators, leads: true},
	v1.NodeService_Diagnose_FullMethodName:     {who: operators, request: valid(func(r *v1.DiagnoseRequest) *refusal.Error { return validNameOrAll("job", r.GetJob()) })},
	v1.NodeService_StreamEvents_FullMethodName: {who: operators, leads: true, request: valid(func(r *v1.StreamEventsRequest) *refusal.Error { return validNameOrAll("job", r.GetJob()) })},

	v1.ClusterService_ListNodes_FullMethodName:   {who: operators, leads: true},
	v1.ClusterService_DrainNode_FullMethodName:   {who: operators, leads: true, request: valid(func(r *v1.DrainNodeRequest) *refusal.Error { return validNode(r.GetName()) })},
	v1.ClusterService_UndrainNode_FullMethodName: {who: operators, leads: true, request: valid(func(r *v1.UndrainNodeRequest) *refusal.Error { return validNode(r.GetName()) })},
	v1.ClusterService_ForgetNode_FullMethodName:  {who: operators, leads: true, request: valid(func(r *v1.ForgetNodeRequest) *refusal.Error { return validNode(r.GetName()) })},

	v1.PeerService_Greet_FullMethodName:         {who: peers},
	v1.PeerService_Beat_FullMethodName:          {who: peers},
	v1.PeerService_AddJob_FullMethodName:        {who: peers},
	v1.PeerService_RemoveJob_FullMethodName:     {who: peers},
	v1.PeerService_ListInstalled_FullMethodName: {who: peers},
	v1.PeerService_FindPath_FullMethodName:      {who: peers},
	v1.PeerService_ReadJob_FullMethodName:       {who: peers},
	v1.PeerService_ReadUnknown_FullMethodName:   {who: peers},

	// Workers may ask whether the appliance serves before they join, or again after they lost it.
	health.Health_Check_FullMethodName: {who: identified, health: true, request: valid(validHealth)},
	health.Health_Watch_FullMethodName: {who: identified, health: true, request: valid(validHealth)},
	health.Health_List_FullMethodName:  {who: identified, health: true},

	// What the API is, is no secret, but a worker needs no reflection, and what it cannot call cannot have a fault that it could use.
	reflection.ServerReflection_ServerReflectionInfo_FullMethodName:      {who: operators},
	reflectionalpha.ServerReflection_ServerReflectionInfo_FullMethodName: {who: operators},
}

// request is a check of requests of one type.
func request[M proto.Message](check func(who *caller, r M) *refusal.Error) func(*caller, proto.Message) *refusal.Error {
	return func(who *caller, r proto.Message) *refusal.Error {
		typed, ok := r.(M)
		if !ok {
			return refusal.New(codes.Internal, refusal.Internal, "the table has a %T for a method that takes a %T; tell the makers of Spillway", typed, r)
		}
		return check(who, typed)
	}
}

// valid is a check that is the same for all callers.
func valid[M proto.Message](check func(r M) *refusal.Error) func(*caller, proto.Message) *refusal.Error {
	return request(func(_ *caller, r M) *refusal.Error { return check(r) })
}

// admits says why a caller may not call a method, whatever the request.
func (a access) admits(who *caller, method, socket string) *refusal.Error {
	if who.way == overPeers {
		return a.admitsPeer(who, method)
	}
	if who.operator() && a != nobody && a != peers {
		return nil
	}
	where := "over TCP"
	if socket != "" {
		where = "over the Unix socket " + socket
	}
	switch {
	case a == anyone:
		return nil
	case a == peers:
		return refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "%s is for the other appliances of a cluster, at the address of cluster.listen", short(method))
	case a == nobody:
		return refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "%s is for nobody", short(method))
	case who.way == overPlainTCP && a == members:
		return nil
	case who.way == overPlainTCP:
		return refusal.New(codes.PermissionDenied, refusal.NotOverPlainTCP, "%s is not for callers over plain TCP, who may only join and leave; call it %s", short(method), where)
	case len(who.identity.Jobs) == 0:
		return refusal.New(codes.PermissionDenied, refusal.NotAuthorised,
			"the certificate %q of %s says nothing that its holder may do; issue one with the URI name spillway://operator or spillway://job/NAME",
			who.certificates[0].Subject.CommonName, who.address)
	case a == operators:
		return refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "%s is for operators, and %s; call it %s, or with a certificate that says spillway://operator",
			short(method), who.who(), where)
	}
	return nil
}

// admitsPeer says why another appliance may not call a method. It passes on what operators ask of it, and joins no job.
func (a access) admitsPeer(who *caller, method string) *refusal.Error {
	switch {
	case who.identity.Node == "":
		return refusal.New(codes.PermissionDenied, refusal.NotAuthorised,
			"%s: only an appliance of the cluster calls here; workers and operators call the address of api.listen, and an appliance has a certificate with spillway://node/NAME", who.who())
	case a == peers || a == operators || a == identified || a == anyone:
		return nil
	}
	return refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "%s is not for appliances", short(method))
}

// mayJoin says why a caller may not take part in a job.
func (c *caller) mayJoin(job string) *refusal.Error {
	if c.way != overTLS || c.identity.MayJoin(job) {
		return nil
	}
	return refusal.New(codes.PermissionDenied, refusal.NotAuthorised, "job %s is not one that the caller may join: %s; issue a certificate with spillway://job/%s", job, c.who(), job).
		With("job", job)
}
