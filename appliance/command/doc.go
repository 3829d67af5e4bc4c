// Package command is the command line of spillwayd. It is a package so that other programs, which start daemons for racks and tests, can be one
// by running themselves again.
package command
