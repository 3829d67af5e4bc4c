package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// suggest says what was probably meant by a key that is not there: one that is spelled nearly so, or the same below another section.
func suggest(name, path string, keys []string) string {
	if near := nearest(name, keys); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if places := placesOf(name, reflect.TypeFor[Config](), ""); len(places) > 0 {
		return "did you mean " + listed(quoted(places), "or") + "?"
	}
	where := "at the top"
	if path != "" {
		where = "in " + path
	}
	return fmt.Sprintf("the keys %s are %s", where, listed(quoted(keys), "and"))
}

// placesOf are the paths of all keys with the name; of lists without an index.
func placesOf(name string, t reflect.Type, path string) (places []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if isLeaf(t) {
		return nil
	}
	for i := range t.NumField() {
		key := keyOf(t.Field(i))
		if key == "" {
			continue
		}
		if key == name {
			places = append(places, join(path, key))
		}
		places = append(places, placesOf(name, t.Field(i).Type, join(path, key))...)
	}
	return places
}

// nearest is the word that takes the fewest changes of a letter, if those are few for its length.
func nearest(name string, words []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, word := range words {
		if d := distance(normal(name), normal(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// normal is a word without what people write differently: case, and how words are put together.
func normal(word string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(word))
}

// distance is how many letters must be put in, taken out or changed (Levenshtein). Words beyond 64 letters are none of ours.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func quoted(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		out[i] = `"` + w + `"`
	}
	return out
}

// listed is "a, b and c".
func listed(words []string, and string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + and + " " + words[last]
}
