// Package store keeps jobs over a restart of the daemon, in one bbolt file.
package store
