// Package certs makes the certificates of a lab and reads those of any CA: an authority, a certificate for the appliance, and certificates for
// operators and workers, whose rights are URI names in them. Where a site has a CA of its own, it issues the same names, and only ServerTLS and
// IdentityOf are used.
//
// Keys are ECDSA on P-256. Ed25519 would be smaller, but gRPC for Python and C++ takes no such certificate unless it is built for it.
package certs
