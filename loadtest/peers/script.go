package peers

import _ "embed" // for the script

//go:embed allreduce.py
var script []byte

// Script is the program in Python that is a rank of Gloo or of Open MPI. It says itself how it is used.
func Script() []byte { return script }
