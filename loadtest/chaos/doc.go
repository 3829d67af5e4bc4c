// Package chaos breaks racks on purpose while their workers reduce, and says what came of it: whether every sum stayed right to the last bit,
// whether the job went on, and after how long.
//
// A Scenario is one kind of fault. A campaign builds a rack, lets worker processes reduce without a pause, strikes again and again at moments that a seed
// chooses, and looks at every collective of every worker. What the workers sum is one of two workloads:
//
//	pattern   tensors that each worker makes up from the seed; each compares each result with the sum that package reference makes of all ranks' tensors
//	training  the demo's training; each result's hash is compared with the one of the same step of a training without a network, and at last the weights
//
// Nothing of a rack outlives the process (package rack), so a campaign that is interrupted or killed leaves nothing behind.
package chaos
