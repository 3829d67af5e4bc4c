// Package softtor is the software ToR: the data plane on the interfaces of a network namespace, behind a P4Runtime server. It is
// driven as a Tofino is, and can be made as poor as one, by its number of slots and their size. Its tables are empty when it
// starts; when the process ends, however it ends, its programs leave the interfaces with it.
package softtor
