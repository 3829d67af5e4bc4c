package fixedpoint

// hasVectors: the assembly is NEON, which every arm64 has.
const hasVectors = true
