// Package measure holds the benchmarks' measurements. They are times of calls and their percentiles, and memory and CPU of processes as the kernel
// counts them. It also reads the series of a metrics page, and prints tables.
package measure
