// Package peers has what spill-load compares Spillway with: a rank of Gloo or of Open MPI in Python (allreduce.py), and a parameter server over TCP.
//
// The parameter server is Spillway's own, written for the comparison: the plain way of summing at one host, as it is compared with in XAgg. It is made
// as well as its design allows, because a weak one would say nothing: tensors travel in pieces, so that workers receive the first sums while they
// still send, a connection has a goroutine for each direction, pieces are read into the memory that they are summed in and written from there, and nobody copies.
//
// On a connection a worker says who it is (hello), and then sends tensors, each as its bare elements, float32 in the machine's byte order. It gets as
// many back, the sums.
package peers
