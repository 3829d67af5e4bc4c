package capi

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// symbolsOf are the functions that a shared library exports, sorted. Its soname must be the file's.
func symbolsOf(path string) (names []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if soname, err := f.DynString(elf.DT_SONAME); err != nil || len(soname) != 1 || soname[0] != "libspillway.so.1" {
		return nil, fmt.Errorf("soname %v, %w", soname, err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
