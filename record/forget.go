package record

// Forget returns the record after an operator's decision not to remember keys. It keeps that decision as a removal on the newest object. So no
// older observation brings the keys back, and no registration from an older record does.
func Forget(r Record, keys []string) Record {
	forget := make(map[string]bool, len(keys))
	for _, key := range keys {
		forget[key] = true
	}
	newest := r.Newest().Version
	entries := make([]Entry, 0, len(r.Entries))
	for _, e := range r.Entries {
		if forget[e.Key] && !e.Removed {
			e = Entry{Key: e.Key, Removed: true, Version: newest}
		}
		if !e.Removed || e.Version > 0 {
			entries = append(entries, e)
		}
	}
	r.Entries = entries
	return r
}
