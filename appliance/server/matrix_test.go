package server_test

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/certs"
	"spillway/appliance/refusal"
	"spillway/appliance/server"
)

// requests is a well-formed request of each method. None needs a job that is there, or changes anything: what matters is how far it gets.
var requests = map[string]proto.Message{
	"/spillway.v1.JobService/CreateJob": &v1.CreateJobRequest{Spec: &v1.JobSpec{Name: "a", Workers: 2}, DryRun: true},
	"/spillway.v1.JobService/DeleteJob": &v1.DeleteJobRequest{Name: "nobody"},
	"/spillway.v1.JobService/DrainJob":  &v1.DrainJobRequest{Name: "nobody"},
	"/spillway.v1.JobService/GetJob":    &v1.GetJobRequest{Name: "nobody"},
	"/spillway.v1.JobService/ListJobs":  &v1.ListJobsRequest{},
	"/spillway.v1.JobService/WatchJobs": &v1.WatchJobsRequest{},

	"/spillway.v1.NodeService/GetNode":      &v1.GetNodeRequest{},
	"/spillway.v1.NodeService/ListWorkers":  &v1.ListWorkersRequest{Job: "a"},
	"/spillway.v1.NodeService/ListSlots":    &v1.ListSlotsRequest{Job: "a"},
	"/spillway.v1.NodeService/ListLevels":   &v1.ListLevelsRequest{},
	"/spillway.v1.NodeService/ListCounters": &v1.ListCountersRequest{},
	"/spillway.v1.NodeService/GetSwitch":    &v1.GetSwitchRequest{},
	"/spillway.v1.NodeService/Diagnose":     &v1.DiagnoseRequest{},
	"/spillway.v1.NodeService/StreamEvents": &v1.StreamEventsRequest{},

	"/spillway.v1.WorkerService/Join":  &v1.JoinRequest{Job: "a", Address: "127.0.0.1"},
	"/spillway.v1.WorkerService/Leave": &v1.LeaveRequest{Job: "a", Part: &v1.Resume{Generation: 1}},

	"/spillway.v1.ClusterService/ListNodes":   &v1.ListNodesRequest{},
	"/spillway.v1.ClusterService/DrainNode":   &v1.DrainNodeRequest{Name: "nobody"},
	"/spillway.v1.ClusterService/UndrainNode": &v1.UndrainNodeRequest{Name: "nobody"},
	"/spillway.v1.ClusterService/ForgetNode":  &v1.ForgetNodeRequest{Name: "nobody"},

	"/spillway.v1.PeerService/Greet":         &v1.GreetRequest{},
	"/spillway.v1.PeerService/Beat":          &v1.BeatRequest{Term: term},
	"/spillway.v1.PeerService/AddJob":        &v1.AddJobRequest{Term: term - 1},
	"/spillway.v1.PeerService/RemoveJob":     &v1.RemoveJobRequest{Term: term, Id: 31},
	"/spillway.v1.PeerService/ListInstalled": &v1.ListInstalledRequest{Term: term},
	"/spillway.v1.PeerService/FindPath":      &v1.FindPathRequest{Term: term, Address: "10.0.0.7"},
	"/spillway.v1.PeerService/ReadJob":       &v1.ReadJobRequest{Id: 31, Counters: true},
	"/spillway.v1.PeerService/ReadUnknown":   &v1.ReadUnknownRequest{},

	"/grpc.health.v1.Health/Check": &healthpb.HealthCheckRequest{Service: "spillway.v1.WorkerService"},
	"/grpc.health.v1.Health/Watch": &healthpb.HealthCheckRequest{},
	"/grpc.health.v1.Health/List":  &healthpb.HealthListRequest{},

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      list,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": list,
}

var list = &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}

// passed are the reasons with which a request may come back that was let through.
var passed = []refusal.Reason{"", refusal.NoSuchJob, refusal.GenerationOver, refusal.NoSuchNode, refusal.OldTerm}

// TestAuthorisation is the matrix: what each caller may call. It is written out here once more, apart from the table.
func TestAuthorisation(t *testing.T) {
	r := clustered(t)
	elsewhere, err := certs.NewAuthority("elsewhere", 0)
	if err != nil {
		t.Fatal(err)
	}
	expired := operator()
	expired.Start, expired.Lifetime = time.Now().Add(-2*time.Hour), time.Hour
	none := r.issue(t, operator())
	none.Certificates, none.GetClientCertificate = nil, nil

	all := func(method string) refusal.Reason {
		if strings.HasPrefix(method, "/spillway.v1.PeerService/") {
			return refusal.NotAuthorised
		}
		return ""
	}
	ofJob := func(joins bool) func(method string) refusal.Reason {
		return func(method string) refusal.Reason {
			switch method {
			case "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List":
				return ""
			case "/spillway.v1.WorkerService/Join", "/spillway.v1.WorkerService/Leave":
				if joins {
					return ""
				}
			}
			return refusal.NotAuthorised
		}
	}
	for _, test := range []struct {
		name string
		conn *grpc.ClientConn
		want func(method string) refusal.Reason
	}{
		{"socket", r.overSocket(t), all},
		{"operator", r.overTCP(t, r.issue(t, operator())), all},
		{"worker of a", r.overTCP(t, r.issue(t, worker("a"))), ofJob(true)},
		{"worker of b and a", r.overTCP(t, r.issue(t, worker("b", "a"))), ofJob(true)},
		{"worker of b", r.overTCP(t, r.issue(t, worker("b"))), ofJob(false)},
		{"worker of *", r.overTCP(t, r.issue(t, worker("*"))), ofJob(true)},
		{"appliance among workers", r.overTCP(t, r.issue(t, appliance("agg1"))), func(string) refusal.Reason { return refusal.NotAuthorised }},
		{"appliance", dial(t, r.PeersAddr(), r.issue(t, appliance("agg1"))), func(method string) refusal.Reason {
			if strings.HasPrefix(method, "/spillway.v1.WorkerService/") {
				return refusal.NotAuthorised
			}
			return ""
		}},
		{"operator among appliances", dial(t, r.PeersAddr(), r.issue(t, operator())), func(string) refusal.Reason { return refusal.NotAuthorised }},
		{"worker among appliances", dial(t, r.PeersAddr(), r.issue(t, worker("*"))), func(string) refusal.Reason { return refusal.NotAuthorised }},
		{"plain TCP", start(t, plain).overTCP(t, nil), func(method string) refusal.Reason {
			if method == "/spillway.v1.WorkerService/Join" || method == "/spillway.v1.WorkerService/Leave" {
				return ""
			}
			if strings.HasPrefix(method, "/spillway.v1.PeerService/") {
				return refusal.NotAuthorised
			}
			return refusal.NotOverPlainTCP
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range methods(r) {
				response, err := call(within(t), test.conn, method, requests[method])
				got := refusal.Of(err)
				switch want := test.want(method); {
				case want == "" && got != nil && !slices.Contains(passed, got.Reason):
					t.Errorf("%s: %s %s: %s; want it let through", method, got.Code, got.Reason, got.Text)
				case want != "" && (got == nil || got.Reason != want || got.Code != codes.PermissionDenied || got.Text == "" || len(response) > 0):
					t.Errorf("%s: %x, %v; want %s", method, response, err, want)
				}
			}
		})
	}
	for _, test := range []struct {
		name   string
		config *tls.Config
		client string // what the caller reads
		log    string // what the operator reads
	}{
		{"expired", r.issue(t, expired), "certificate has ended", "is not of this time"},
		{"unknown authority", issueBy(t, elsewhere, r.lab, operator()), "of an authority that the appliance does not know", "of an authority that is not known here"},
		{"no certificate", none, "wants a certificate of the caller", "the caller has no certificate"},
		{"plain TCP to TLS", nil, "it speaks TLS", "does not speak TLS"},
		{"unknown appliance", issueBy(t, r.lab, elsewhere, operator()), "authority that the caller does not know", "remote error: tls"},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := r.overTCP(t, test.config)
			for _, method := range methods(r) {
				_, err := call(within(t), conn, method, requests[method])
				if got := refusal.Of(err); got == nil || got.Code != codes.Unavailable {
					t.Errorf("%s: %v, want UNAVAILABLE", method, err)
				}
				explained := refusal.Handshake(err)
				if explained == nil {
					t.Errorf("%s: %v: nothing for a person to act on", method, err)
					continue
				}
				wantRefusal(t, explained, refusal.Certificate, test.client)
			}
			r.log.until(t, test.log)
		})
	}
}

// plain lets anyone join who reaches the port.
func plain(config *server.Config) { config.TLS, config.Plaintext = nil, true }

func methods(r *rig) []string {
	var names []string
	for service, info := range r.Services() {
		for _, method := range info.Methods {
			names = append(names, "/"+service+"/"+method.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestTableIsWhole: what is registered is in the table and in the matrix, and nothing else is.
func TestTableIsWhole(t *testing.T) {
	r := clustered(t)
	if diff := cmp.Diff(methods(r), server.Table()); diff != "" {
		t.Errorf("registered and in the table:\n%s", diff)
	}
	for _, method := range methods(r) {
		if requests[method] == nil {
			t.Errorf("%s is not in the matrix", method)
		}
	}
	for _, method := range []string{"/spillway.v1.JobService/Reboot", "/spillway.v2.JobService/CreateJob", "/x/y"} {
		_, err := call(within(t), r.overSocket(t), method, &v1.ListJobsRequest{})
		wantRefusal(t, err, refusal.NoSuchMethod, "another version")
		if code := refusal.Of(err).Code; code != codes.Unimplemented {
			t.Errorf("%s: %s", method, code)
		}
	}
}

// TestAddressOfAWorker: a worker sends from where it calls from, or from an address of its certificate.
func TestAddressOfAWorker(t *testing.T) {
	r, open := start(t, nil), start(t, plain)
	two := worker("a")
	two.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("2001:db8::7")}
	for _, test := range []struct {
		name    string
		conn    *grpc.ClientConn
		address string
		want    refusal.Reason
	}{
		{"own", r.overTCP(t, r.issue(t, worker("a"))), "127.0.0.1", ""},
		{"left out", r.overTCP(t, r.issue(t, worker("a"))), "", ""},
		{"foreign", r.overTCP(t, r.issue(t, worker("a"))), "10.0.0.7", refusal.AddressForeign},
		{"of the certificate", r.overTCP(t, r.issue(t, two)), "10.0.0.7", ""},
		{"beside the certificate's", r.overTCP(t, r.issue(t, two)), "10.0.0.8", refusal.AddressForeign},
		{"IPv6", r.overTCP(t, r.issue(t, two)), "2001:db8::7", refusal.BadRequest},
		{"mapped", r.overTCP(t, r.issue(t, two)), "::ffff:10.0.0.7", refusal.BadRequest},
		{"no address", r.overTCP(t, r.issue(t, two)), "10.0.0", refusal.BadRequest},
		{"multicast", r.overTCP(t, r.issue(t, operator())), "239.77.0.1", refusal.BadRequest},
		{"unspecified", r.overTCP(t, r.issue(t, operator())), "0.0.0.0", refusal.BadRequest},
		{"broadcast", r.overSocket(t), "255.255.255.255", refusal.BadRequest},
		{"operator's choice", r.overTCP(t, r.issue(t, operator())), "10.0.0.9", ""},
		{"socket", r.overSocket(t), "10.0.0.9", ""},
		{"socket, left out", r.overSocket(t), "", refusal.BadRequest},
		{"plain, own", open.overTCP(t, nil), "", ""},
		{"plain, foreign", open.overTCP(t, nil), "10.0.0.7", refusal.AddressForeign},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := call(within(t), test.conn, v1.WorkerService_Join_FullMethodName, &v1.JoinRequest{Job: "a", Address: test.address})
			if test.want != "" {
				wantRefusal(t, err, test.want)
			} else if got := refusal.Of(err); got == nil || got.Reason != refusal.NoSuchJob {
				t.Errorf("%v, want it let through to the manager, which has no job a", err)
			}
		})
	}
}
