package quantity

import "strings"

// Nearest returns the one of these names that a misspelt one is close to; empty: none is. One letter in three differs at most, or the misspelt
// name begins or ends the other one. Case does not matter. The first letter of a short name must be right: gpu is not cpu.
func Nearest(name string, names []string) (nearest string) {
	const shortest, short, oneIn = 3, 4, 3
	lower := strings.ToLower(name)
	if len(lower) > longest {
		return ""
	}
	minimum := max(1, len(lower)/oneIn) + 1
	for _, candidate := range names {
		to := strings.ToLower(candidate)
		if len(lower) <= short && !strings.HasPrefix(to, lower[:min(1, len(lower))]) {
			continue
		}
		if differ := distance(lower, to); differ < minimum {
			minimum, nearest = differ, candidate
		}
	}
	if nearest != "" || len(lower) < shortest {
		return nearest
	}
	for _, candidate := range names {
		if to := strings.ToLower(candidate); strings.HasPrefix(to, lower) || strings.HasSuffix(to, lower) {
			return candidate
		}
	}
	return ""
}

// longest bounds, in bytes, what is compared.
const longest = 63

// distance returns how many bytes must be added, removed or replaced to make one text of another. Two that are swapped count once.
func distance(a, b string) int {
	prev, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev[j-2]+1)
			}
		}
		prev, last = last, row
	}
	return last[len(b)]
}
