// Package config is the configuration of spillwayd: strict YAML, read whole, so that everything that is wrong is said at once, each with
// file, line, the key's path, and what to write instead. Parse looks at the text alone; CheckHost holds a configuration to the machine it
// is for, and changes nothing on it.
//
// docs/configuration.md is the reference; a test holds it to the types of this package.
package config
