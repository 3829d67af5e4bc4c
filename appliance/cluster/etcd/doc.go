// Package etcd is the way to the state that the appliances of a cluster share: a client of an etcd that is there anyway, or a member of one that runs in the
// daemon, for racks that have none. What is written there, and who may write it, is package cluster's.
package etcd
