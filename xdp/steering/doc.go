// Package steering keeps the packets to each of a home's UDP ports on one receive queue of a NIC, so that the packets of a
// chunk, which all go to one port, meet on one core and its slot's lock is not contended.
//
// It uses the NIC's flow rules ("ntuple filters"; ethtool -N) by the ioctl that every kernel has for them. A NIC without
// them, and every virtual interface, is left as it is: the aggregator is right without them, only slower.
package steering
