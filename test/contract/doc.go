// Package contract tests what other tools may rely on. That is the condition nodekeep.dev/Verified of a profile with mode report, with their own types.
package contract
