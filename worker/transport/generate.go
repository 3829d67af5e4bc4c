package transport

// The include paths are those of asm/types.h on the architectures that Debian
// and Ubuntu build on; those that do not exist are ignored.
//go:generate go tool bpf2go -cflags "-O2 -g -Wall -Wextra -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" -target bpfel,bpfeb steer bpf/steer.bpf.c
