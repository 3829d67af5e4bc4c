// Package fabric keeps the ToR in the state that the appliance wants: the pipeline, the entries that forward to hosts, and the jobs. It
// reads over P4Runtime what is there and writes only what differs.
package fabric
