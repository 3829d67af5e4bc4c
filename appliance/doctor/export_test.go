package doctor

// Knows says whether there is a meaning and a remedy for a reason why packets are dropped.
func Knows(reason string) bool { return dropReasons[reason].means != "" }
