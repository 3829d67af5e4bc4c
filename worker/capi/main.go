// Command capi is libspillway, the worker for programs in C and whatever calls C: built as a shared library (make lib), with spillway.h as its face. docs/c-api.md
// describes it for its users, decision record 0033 why it is as it is.
//
// What is exported is C (library.c), a thin layer that checks for a fork, keeps the last error of each thread, and waits. It calls Go (exports.go) only for
// what returns at once, with the thread's signals blocked, so that no handler of the caller ever runs on a stack of Go's. Everything that lasts is a request in the table (table.go),
// which goroutines complete, and for which C waits on a semaphore.
//
// Everything but this file needs cgo. Without, the package is a program that says so.
package main

import "os"

func main() {
	os.Stderr.WriteString("this is the source of a library: make lib builds it\n")
	os.Exit(2)
}
