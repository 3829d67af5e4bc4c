// Package transport moves the packets of one worker over UDP in few system calls: sendmmsg with segmentation offload (UDP_SEGMENT,
// Linux 4.18) and recvmmsg with receive offload (UDP_GRO, Linux 5.0), and plain datagrams where the kernel or the device refuses
// them. Packets are written by the engine straight into the buffer that is handed to the kernel, and read where the kernel put them.
//
// A Conn has two sockets: one bound to the worker's own address, from which everything is sent and which gets the unicast answers;
// and, in a job with a multicast group, one bound to the group, which gets RESULT and SOLICIT. So packets leave from the right
// address, and several workers with different addresses fit one host.
//
// Nothing allocates after Open. Memory: about 1.3 MB of buffers for a Conn, beside what the kernel queues.
package transport
