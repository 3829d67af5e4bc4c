package server

import (
	"slices"

	"google.golang.org/grpc"
)

// Services are those that are registered, with their methods: at the door of the other appliances, where there is one.
func (s *Server) Services() map[string]grpc.ServiceInfo {
	return s.doors[len(s.doors)-1].server.GetServiceInfo()
}

// PeersAddr is where the other appliances call.
func (s *Server) PeersAddr() string { return s.doors[len(s.doors)-1].listener.Addr().String() }

// Table are the methods that the table knows.
func Table() []string {
	var methods []string
	for method := range table {
		methods = append(methods, method)
	}
	slices.Sort(methods)
	return methods
}
