// Package transport moves the packets of one worker. A Conn is one of two things: a pair of UDP sockets, or AF_XDP rings on top of them.
//
// UDP sockets take and give many packets a system call: sendmmsg with segmentation offload (UDP_SEGMENT, Linux 4.18) and recvmmsg with receive offload (UDP_GRO,
// Linux 5.0), and plain datagrams where the kernel or the device refuses them. Packets are written by the engine straight into the buffer that is handed to the
// kernel, and read where the kernel put them. One socket is bound to the worker's own address, from which everything is sent and which gets the unicast answers;
// in a job with a multicast group another one is bound to that, and gets RESULT and SOLICIT. So packets leave from the right address, and several workers with different
// addresses fit one host.
//
// AF_XDP rings (Linux 5.10 with XDP_USE_NEED_WAKEUP; rings.go) pass the kernel's network stack by. There is a socket at each queue of the interface, with memory that it shares with the kernel: the engine writes DATA into the frame that the
// device sends, behind headers that are written once for each frame, and reads RESULTs in the frame that the device filled. An XDP program on the interface (bpf/steer.bpf.c)
// gives the rings what is for this worker's port, and its address or group, and leaves all else to the kernel. The UDP sockets below own the port, join the group, and
// take what the rings cannot: packets to a neighbour whose hardware address the kernel has yet to find, or by another interface, and fragments. Routes and neighbours are the
// kernel's; the rings follow its changes. It all goes with the process's file descriptors, however that ends.
//
// Nothing allocates after Open, but when routes or neighbours change. Memory: about 1.3 MB of buffers for the sockets, beside what the kernel queues; for rings 4 kB a frame, for two windows of packets at each queue
// and one window to send, each at least 256 and at most 8192 frames.
package transport
