// Package packaging makes the Debian package: both programs, the unit, and what goes with them. What is in it is the list in contents.go;
// the files that are not made by programs are in files/. The same sources, version and SOURCE_DATE_EPOCH give the same bytes.
package packaging
