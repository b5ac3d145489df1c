package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// Changes is what changed lately, by the histories of the records. A history holds the newest changes only, so there may have been more.
type Changes struct {
	Start  time.Time `json:"since"`
	Days   []Day     `json:"days"` // oldest first, days without a change included
	Items  []Changed `json:"items"`
	Latest []Change  `json:"latest"` // newest first
	// Omitted counts changes of so many labels at once that the record does not list them.
	Omitted int `json:"omitted,omitempty"`
}

// Day is a day in UTC.
type Day struct {
	Day     string `json:"day"`
	Changes int    `json:"changes"` // of a label, taint or annotation of a Node
}

// Changed is a label, taint or annotation that changed.
type Changed struct {
	Item    string `json:"item"`
	Changes int    `json:"changes"`
}

// Change is one change of one label, taint or annotation of one Node.
type Change struct {
	Time time.Time `json:"time"`
	Node string    `json:"node"`
	Item string    `json:"item"`
	From *string   `json:"from,omitempty"` // nil: it was not there
	To   *string   `json:"to,omitempty"`
	By   string    `json:"by,omitempty"` // the field manager, a name that its client chose; empty: not known
}

// Histories adds up the histories of records.
type Histories struct {
	now     time.Time
	days    map[string]int
	items   map[string]int
	latest  []Change
	omitted int
}

// NewHistories counts the changes of the last 30 days.
func NewHistories(now time.Time) *Histories {
	return &Histories{now: now.UTC(), days: map[string]int{}, items: map[string]int{}}
}

const dayFormat = "2006-01-02"

func (h *Histories) start() time.Time {
	return h.now.Truncate(24*time.Hour).AddDate(0, 0, -(daysOfChange - 1))
}

// See counts a record.
func (h *Histories) See(r record.Record) {
	for _, change := range history.Changes(r) {
		t := change.Time.UTC()
		if t.Before(h.start()) || t.After(h.now.Add(24*time.Hour)) { // a record that a client edited can name any time
			continue
		}
		if change.Omitted > 0 {
			h.omitted++
			h.days[t.Format(dayFormat)] += change.Omitted
		}
		for item, values := range change.Items {
			h.days[t.Format(dayFormat)]++
			if _, known := h.items[item]; known || len(h.items) < maxGroups {
				h.items[item]++
			}
			h.latest = append(h.latest, Change{Time: t, Node: r.Node, Item: item, From: short(values.From), To: short(values.To), By: change.Actor})
		}
		if len(h.latest) > 4*maxLatest {
			h.keepLatest()
		}
	}
}

func short(value *string) *string {
	if value == nil {
		return nil
	}
	text := shortened(*value)
	return &text
}

func (h *Histories) keepLatest() {
	slices.SortFunc(h.latest, func(a, b Change) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Item, b.Item))
	})
	h.latest = h.latest[:min(len(h.latest), maxLatest)]
}

// Changes returns what was counted.
func (h *Histories) Changes() Changes {
	h.keepLatest()
	c := Changes{Start: h.start(), Days: []Day{}, Items: []Changed{}, Latest: append([]Change{}, h.latest...), Omitted: h.omitted}
	for day := h.start(); !day.After(h.now); day = day.AddDate(0, 0, 1) {
		c.Days = append(c.Days, Day{day.Format(dayFormat), h.days[day.Format(dayFormat)]})
	}
	for _, item := range slices.Sorted(maps.Keys(h.items)) {
		c.Items = append(c.Items, Changed{item, h.items[item]})
	}
	slices.SortStableFunc(c.Items, func(a, b Changed) int { return cmp.Compare(b.Changes, a.Changes) })
	return c
}

func (c Changes) tables() []Table {
	items := Table{Name: "changed", Title: "Changed in the last 30 days, after the first record", Columns: []Column{text("Item"), number("Changes")}}
	for _, item := range c.Items {
		items.add(item.Item, item.Changes)
	}
	latest := Table{Name: "changes", Title: "Latest changes", Columns: []Column{text("Time"), text("Node"), text("Item"), text("From"), text("To"), text("By")}}
	for _, change := range c.Latest {
		latest.add(change.Time.UTC().Format(time.RFC3339), change.Node, change.Item, valueIn(change.From), valueIn(change.To), cmp.Or(change.By, "unknown"))
	}
	days := Table{Name: "days", Title: "Changes by day", Columns: []Column{text("Day"), number("Changes")}, DataOnly: true}
	for _, day := range c.Days {
		days.add(day.Day, day.Changes)
	}
	return []Table{items, latest, days}
}
