package daemon

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// warnings are what is wrong right now, a sentence each, under keys by which they are taken back.
type warnings struct {
	mu  sync.Mutex
	now map[string]string
}

// set says that something is wrong. It returns whether that is news.
func (w *warnings) set(key, format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		w.now = map[string]string{}
	}
	before := w.now[key]
	w.now[key] = text
	return before != text
}

func (w *warnings) clear(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.now, key)
}

// list is what is wrong, in the order of the keys.
func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, key := range slices.Sorted(maps.Keys(w.now)) {
		all = append(all, w.now[key])
	}
	return all
}
