package fixedpoint

import "golang.org/x/sys/cpu"

// hasVectors: the assembly is AVX2.
var hasVectors = cpu.X86.HasAVX2
