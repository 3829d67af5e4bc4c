// Package client is a P4Runtime client for one device and one role: a session on the stream channel, with arbitration, and
// the calls that need it. When the session ends for whatever reason, every pending and every following call says why.
//
// It speaks P4Runtime 1.5.0 and works with any server of version 1; names in errors come from the P4Info it is given.
package client
