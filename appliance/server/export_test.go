package server

import (
	"slices"

	"google.golang.org/grpc"
)

// Services are those that are registered, with their methods.
func (s *Server) Services() map[string]grpc.ServiceInfo { return s.doors[0].server.GetServiceInfo() }

// Table are the methods that the table knows.
func Table() []string {
	var methods []string
	for method := range table {
		methods = append(methods, method)
	}
	slices.Sort(methods)
	return methods
}
