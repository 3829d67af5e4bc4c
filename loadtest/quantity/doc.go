// Package quantity reads and writes the quantities of spill-load's command line:
// sizes ("40MB"), link rates ("500mbit") and probabilities ("0.1%"). Each type is a
// flag.Value whose String reads back to the same value.
package quantity
