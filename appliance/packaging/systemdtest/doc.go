// Package systemdtest tests the Debian package where it is to be used: it is installed by dpkg in a Debian that a real systemd has booted, in a
// container with a network namespace of its own, and workers in further namespaces reduce through the service.
//
// The Debian is made once by debootstrap, and kept in the user's cache directory under a name that says what is in it; a test writes to a
// layer above it, in memory. It needs root, debootstrap and systemd-nspawn (Debian: debootstrap, systemd-container; make test installs them).
//
// All that a test makes hangs on one process of its own: the mounts are in that process's mount namespace, the container is killed with it,
// and it ends when its standard input does, which is when the test ends, however that comes.
package systemdtest
