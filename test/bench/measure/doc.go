// Package measure holds what the benchmarks count with: times of calls and their percentiles, memory and CPU of processes
// as the kernel sees them, series of a metrics page, and tables that can be pasted into docs/benchmarks.md.
package measure
