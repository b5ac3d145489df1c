// Package search explores every world that a model can reach, and shrinks, prints and replays scenarios. A scenario is text: one step a line, as
// [Space.Text] has it. Lines that begin with # are comments.
package search
