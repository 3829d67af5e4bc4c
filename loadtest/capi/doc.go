// Package capi tests libspillway from C: programs that gcc builds, with the address sanitizer and without, in racks with the real daemon.
package capi
