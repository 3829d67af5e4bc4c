// Package daemon is spillwayd from its start to its end: it takes over or loads the data plane, brings back the jobs, keeps the ToR programmed,
// serves the API, tells the service manager how it is, and goes away without taking the data plane with it.
package daemon
