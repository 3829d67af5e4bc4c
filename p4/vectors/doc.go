// Package vectors holds the three targets of the ToR together.
package vectors
