// Package api is the appliance's API as protocol buffers and gRPC: the definition is in spillway/v1, with the Go code that buf
// makes of it (package spillwayv1). The server is appliance/server, its clients are the worker library, spillctl and spill-load.
//
// Every error has one of gRPC's codes, a text that says what to do, and a google.rpc.ErrorInfo whose reason is one of Reasons.
package api

//go:generate go tool buf generate
